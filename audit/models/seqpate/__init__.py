"""SeqPATE's teachers, their noisy answers, and the student that learns from them."""

"""How models are trained: plainly, by DP-SGD, selectively."""

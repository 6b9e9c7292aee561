"""Trainings of models: plain, by DP-SGD, selective."""

"""Examine a private training engine white-box: is this DP-SGD really DP-SGD?

An adapter of a few lines lets any engine run small trainings whose gradients are known. What the
engine hands its optimizer shows what it samples, clips and adds. Methods:
docs/methods/examining-an-engine.md.
"""

from audit.check.engine import Adapter, Engine, Steps, Trial
from audit.check.examination import Examination, examine
from audit.check.loading import load
from audit.check.stated import Claim

__all__ = ["Adapter", "Claim", "Engine", "Examination", "Steps", "Trial", "examine", "load"]

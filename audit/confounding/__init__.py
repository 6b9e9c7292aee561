"""Compare two sets of texts without a model: can members be told from others by their texts alone?

What such a comparison finds, no membership attack has to have learned from a model. Methods:
docs/methods/check-data.md.
"""

from audit.confounding.comparison import Comparison, compare
from audit.confounding.files import of_files
from audit.confounding.sides import Side, Sides

__all__ = ["Comparison", "Side", "Sides", "compare", "of_files"]

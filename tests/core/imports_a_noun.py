from audit.core import Defense as Defense

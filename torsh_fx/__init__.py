from . import rules as rules

"""The names of the files that studies, attacks and audits write."""

STUDY = "study.json"
STUDY_TABLES = "study.md"
STUDY_CURVES = "curves.png"
STUDY_TUNING = "tuning.json"
STUDY_MODELS = "models"

TAIL_AUDIT = "audit_tail.json"
ATTACK = "attack.json"
ATTACKS = "attacks.json"

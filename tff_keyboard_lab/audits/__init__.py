"""Audits that estimate how much a trained model reveals about users. They are not guarantees."""

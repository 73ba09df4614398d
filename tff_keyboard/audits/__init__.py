"""What a trained model shows of people: estimates that hold no guarantee against it."""

"""From a trained model to the files a phone takes."""

"""Text forms, for any model with a tokenizer: each prompt is as long as it may be, and never longer."""

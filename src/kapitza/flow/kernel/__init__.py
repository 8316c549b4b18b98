"""The compiled stepper for models with switches and impacts: tapes, library, and the engine around them."""

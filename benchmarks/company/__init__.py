"""A company that does not exist: its folder of 26 mixed files, and 40 questions, of which 12 have no answer."""

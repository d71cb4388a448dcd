"""Integer codes with a scale, in one or two levels, with or without a zero point or an offset."""

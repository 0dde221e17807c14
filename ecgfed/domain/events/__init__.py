"""What a recording's beats add up to: rate, pauses, ectopy, burden, variability; each by a stated rule."""

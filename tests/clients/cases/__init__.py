"""What users of other libraries bring along: their libraries' cases, in the calls of ours."""

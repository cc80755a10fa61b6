"""The notation of client settings, and the settings that every client has."""

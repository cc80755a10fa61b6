"""The tables of settings, one module an area; `barnabas.config.broker_config_keys` joins them."""

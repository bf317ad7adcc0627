"""AfterShip's tracking API, for its SDKs: reads what they send, and writes what they understand."""

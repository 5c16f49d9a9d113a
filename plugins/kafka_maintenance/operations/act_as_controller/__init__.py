"""A few seconds as active controller: the only room of production that sends requests to brokers as a controller does."""

// RealtimeTransports

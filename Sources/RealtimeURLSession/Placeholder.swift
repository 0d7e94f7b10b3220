// RealtimeURLSession

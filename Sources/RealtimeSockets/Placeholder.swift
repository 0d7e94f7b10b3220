// RealtimeSockets

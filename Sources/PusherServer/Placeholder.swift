// PusherServer

// PusherChannels

// PusherWire

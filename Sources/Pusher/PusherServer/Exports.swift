// Whoever runs a server names its listener, its close codes and its errors.
@_exported public import RealtimeCore

// The typed API: `PrimusConnection` and what belongs to it.
@_exported public import PrimusClient

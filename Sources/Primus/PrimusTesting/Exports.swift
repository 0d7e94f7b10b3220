// A test of a client needs the client, the server, and the clock. Nothing else of these modules' dependencies is exported.
@_exported public import PrimusClient
@_exported public import PrimusServer
@_exported public import RealtimeTesting

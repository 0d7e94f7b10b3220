import RealtimeCore

// A certificate or key in memory is a ``PEM``, which doesn't print its content.

extension TLSConfiguration: PrintedParts {
    package static var hiddenParts: Set<String> { ["nameOfTrustRoots", "nameOfIdentity", "maximumVersion", "library"] }
}

extension TLSServerConfiguration: PrintedParts {
    package static var hiddenParts: Set<String> { ["maximumVersion", "library"] }
}

extension TLSIdentity: PrintedParts {}

/// The macros of OpenSSL's headers in use; equal in 3.x and 1.1.1.
enum OpenSSLNumber {
    /// OPENSSL_INIT_NO_ATEXIT
    static let initWithoutExitHandler: UInt64 = 0x0008_0000

    // SSL_MODE_…
    static let partialWrite = 0x01, movingWriteBuffer = 0x02, autoRetry = 0x04, releaseBuffers = 0x10
    // SSL_OP_NO_…
    static let noCompression: UInt64 = 1 << 17, noRenegotiation: UInt64 = 1 << 30
    // SSL_VERIFY_…
    static let verifyNone: Int32 = 0, verifyPeer: Int32 = 1, verifyFailWithoutCertificate: Int32 = 2

    /// SSL_CTRL_…
    enum Control {
        static let mode: Int32 = 33, readAhead: Int32 = 41, sessionCacheMode: Int32 = 44, hostName: Int32 = 55
        static let chainCertificate: Int32 = 89, minimumVersion: Int32 = 123, maximumVersion: Int32 = 124
    }

    /// SSL_ERROR_…
    enum Failure {
        static let wantRead: Int32 = 2, wantWrite: Int32 = 3, zeroReturn: Int32 = 6
    }

    /// BIO_…
    enum BIO {
        static let sourceSink: Int32 = 0x0400
        static let shouldRead: Int32 = 0x01, shouldWrite: Int32 = 0x02, shouldRetry: Int32 = 0x08, allRetryFlags: Int32 = 0x0f
        static let controlInfo: Int32 = 3, controlFlush: Int32 = 11
    }

    /// X509_CHECK_FLAG_…: `w*.example` is not a wildcard, and a common name is not a host name (RFC 9525 section 2).
    static let noPartialWildcards: UInt32 = 0x04, neverCheckSubject: UInt32 = 0x20
    /// X509_V_FLAG_PARTIAL_CHAIN
    static let partialChain: UInt = 0x80000
    /// XN_FLAG_ONELINE without ASN1_STRFLGS_ESC_MSB: control characters are escaped, other UTF-8 is not.
    static let nameOnOneLine: UInt = 0x1 | 0x2 | 0x8 | 0x10 | 0x100 | 0x200 | (2 << 16) | (1 << 23)
    /// NID_subject_alt_name
    static let subjectAlternativeName: Int32 = 85
    // GEN_…
    static let nameIsDNS: Int32 = 2, nameIsAddress: Int32 = 7

    /// X509_V_ERR_…
    enum Verify {
        static let noIssuer: Int32 = 2, notYetValid: Int32 = 9, expired: Int32 = 10, selfSigned: Int32 = 18, selfSignedInChain: Int32 = 19
        static let noLocalIssuer: Int32 = 20, leafUnverified: Int32 = 21, wrongHost: Int32 = 62, wrongAddress: Int32 = 64
    }

    /// SSL_R_…; from 1000 on, an alert of the peer.
    enum Reason {
        static let httpRequest: UInt = 156, noCertificate: UInt = 199, unsupportedProtocol: UInt = 258, wrongVersionNumber: UInt = 267
        static let packetTooLong: UInt = 198, unexpectedMessage: UInt = 244, noSharedCipher: UInt = 193
        static let unexpectedEnd: UInt = 294, unsupportedVersion: UInt = 259, badRecordType: UInt = 443, versionTooLow: UInt = 396
        static let handshakeFailureAlert: UInt = 1040, badCertificateAlert: UInt = 1042, certificateExpiredAlert: UInt = 1045
        static let certificateUnknownAlert: UInt = 1046, unknownAuthorityAlert: UInt = 1048
        static let protocolVersionAlert: UInt = 1070, unrecognizedNameAlert: UInt = 1112
        static let certificateRequiredAlert: UInt = 1116, noApplicationProtocolAlert: UInt = 1120
    }
}

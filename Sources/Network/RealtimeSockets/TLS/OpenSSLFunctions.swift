import RealtimeSystem
import RealtimeCore

/// The OpenSSL functions that are used, by their C names. All exist with this type in 3.x and 1.1.1.
///
/// Options are `unsigned long` in 1.1.1 and 64 bits in 3.x, which are equal on all platforms that Swift supports with OpenSSL.
struct OpenSSLFunctions: Sendable {
    typealias VerifyCallback = @convention(c) (Int32, OpaquePointer?) -> Int32
    typealias BIOReadCallback = @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?, Int32) -> Int32
    typealias BIOWriteCallback = @convention(c) (OpaquePointer?, UnsafeRawPointer?, Int32) -> Int32
    typealias BIOControlCallback = @convention(c) (OpaquePointer?, Int32, Int, UnsafeMutableRawPointer?) -> Int
    typealias PasswordCallback = @convention(c) (UnsafeMutablePointer<CChar>?, Int32, Int32, UnsafeMutableRawPointer?) -> Int32

    // Library.
    let OPENSSL_init_ssl: @convention(c) @Sendable (UInt64, OpaquePointer?) -> Int32
    let OpenSSL_version_num: @convention(c) @Sendable () -> UInt
    let ERR_peek_error: @convention(c) @Sendable () -> UInt
    let ERR_clear_error: @convention(c) @Sendable () -> Void
    let ERR_reason_error_string: @convention(c) @Sendable (UInt) -> UnsafePointer<CChar>?

    // Contexts.
    let TLS_client_method: @convention(c) @Sendable () -> OpaquePointer?
    let TLS_server_method: @convention(c) @Sendable () -> OpaquePointer?
    let SSL_CTX_new: @convention(c) @Sendable (OpaquePointer?) -> OpaquePointer?
    let SSL_CTX_free: @convention(c) @Sendable (OpaquePointer?) -> Void
    let SSL_CTX_ctrl: @convention(c) @Sendable (OpaquePointer?, Int32, Int, UnsafeMutableRawPointer?) -> Int
    let SSL_CTX_set_options: @convention(c) @Sendable (OpaquePointer?, UInt64) -> UInt64
    let SSL_CTX_set_verify: @convention(c) @Sendable (OpaquePointer?, Int32, VerifyCallback?) -> Void
    let SSL_CTX_load_verify_locations: @convention(c) @Sendable (OpaquePointer?, UnsafePointer<CChar>?, UnsafePointer<CChar>?) -> Int32
    let SSL_CTX_get_cert_store: @convention(c) @Sendable (OpaquePointer?) -> OpaquePointer?
    let SSL_CTX_use_certificate: @convention(c) @Sendable (OpaquePointer?, OpaquePointer?) -> Int32
    let SSL_CTX_use_PrivateKey: @convention(c) @Sendable (OpaquePointer?, OpaquePointer?) -> Int32
    let SSL_CTX_add_client_CA: @convention(c) @Sendable (OpaquePointer?, OpaquePointer?) -> Int32
    let SSL_CTX_set_session_id_context: @convention(c) @Sendable (OpaquePointer?, UnsafePointer<UInt8>?, UInt32) -> Int32

    // Connections.
    let SSL_new: @convention(c) @Sendable (OpaquePointer?) -> OpaquePointer?
    let SSL_free: @convention(c) @Sendable (OpaquePointer?) -> Void
    let SSL_ctrl: @convention(c) @Sendable (OpaquePointer?, Int32, Int, UnsafeMutableRawPointer?) -> Int
    let SSL_set_bio: @convention(c) @Sendable (OpaquePointer?, OpaquePointer?, OpaquePointer?) -> Void
    let SSL_set_ex_data: @convention(c) @Sendable (OpaquePointer?, Int32, UnsafeMutableRawPointer?) -> Int32
    let SSL_get_ex_data: @convention(c) @Sendable (OpaquePointer?, Int32) -> UnsafeMutableRawPointer?
    let SSL_get_ex_data_X509_STORE_CTX_idx: @convention(c) @Sendable () -> Int32
    let SSL_set_connect_state: @convention(c) @Sendable (OpaquePointer?) -> Void
    let SSL_set_accept_state: @convention(c) @Sendable (OpaquePointer?) -> Void
    let SSL_set1_host: @convention(c) @Sendable (OpaquePointer?, UnsafePointer<CChar>?) -> Int32
    let SSL_set_hostflags: @convention(c) @Sendable (OpaquePointer?, UInt32) -> Void
    let SSL_get0_param: @convention(c) @Sendable (OpaquePointer?) -> OpaquePointer?
    let X509_VERIFY_PARAM_set1_ip_asc: @convention(c) @Sendable (OpaquePointer?, UnsafePointer<CChar>?) -> Int32
    let SSL_do_handshake: @convention(c) @Sendable (OpaquePointer?) -> Int32
    let SSL_read: @convention(c) @Sendable (OpaquePointer?, UnsafeMutableRawPointer?, Int32) -> Int32
    let SSL_write: @convention(c) @Sendable (OpaquePointer?, UnsafeRawPointer?, Int32) -> Int32
    let SSL_shutdown: @convention(c) @Sendable (OpaquePointer?) -> Int32
    let SSL_has_pending: @convention(c) @Sendable (OpaquePointer?) -> Int32
    let SSL_get_error: @convention(c) @Sendable (OpaquePointer?, Int32) -> Int32
    let SSL_get_version: @convention(c) @Sendable (OpaquePointer?) -> UnsafePointer<CChar>?

    // Bytes in and out.
    let BIO_get_new_index: @convention(c) @Sendable () -> Int32
    let BIO_meth_new: @convention(c) @Sendable (Int32, UnsafePointer<CChar>?) -> OpaquePointer?
    let BIO_meth_set_read: @convention(c) @Sendable (OpaquePointer?, BIOReadCallback?) -> Int32
    let BIO_meth_set_write: @convention(c) @Sendable (OpaquePointer?, BIOWriteCallback?) -> Int32
    let BIO_meth_set_ctrl: @convention(c) @Sendable (OpaquePointer?, BIOControlCallback?) -> Int32
    let BIO_new: @convention(c) @Sendable (OpaquePointer?) -> OpaquePointer?
    let BIO_free: @convention(c) @Sendable (OpaquePointer?) -> Int32
    let BIO_set_data: @convention(c) @Sendable (OpaquePointer?, UnsafeMutableRawPointer?) -> Void
    let BIO_get_data: @convention(c) @Sendable (OpaquePointer?) -> UnsafeMutableRawPointer?
    let BIO_set_flags: @convention(c) @Sendable (OpaquePointer?, Int32) -> Void
    let BIO_clear_flags: @convention(c) @Sendable (OpaquePointer?, Int32) -> Void
    let BIO_s_mem: @convention(c) @Sendable () -> OpaquePointer?
    let BIO_new_mem_buf: @convention(c) @Sendable (UnsafeRawPointer?, Int32) -> OpaquePointer?
    let BIO_ctrl: @convention(c) @Sendable (OpaquePointer?, Int32, Int, UnsafeMutableRawPointer?) -> Int

    // Certificates and keys.
    let PEM_read_bio_X509:
        @convention(c) @Sendable (
            OpaquePointer?, OpaquePointer?, PasswordCallback?, UnsafeMutableRawPointer?
        ) -> OpaquePointer?
    let PEM_read_bio_PrivateKey:
        @convention(c) @Sendable (
            OpaquePointer?, OpaquePointer?, PasswordCallback?, UnsafeMutableRawPointer?
        ) -> OpaquePointer?
    let X509_free: @convention(c) @Sendable (OpaquePointer?) -> Void
    let EVP_PKEY_free: @convention(c) @Sendable (OpaquePointer?) -> Void
    let X509_STORE_add_cert: @convention(c) @Sendable (OpaquePointer?, OpaquePointer?) -> Int32
    let X509_STORE_set_flags: @convention(c) @Sendable (OpaquePointer?, UInt) -> Int32
    let X509_STORE_CTX_get_ex_data: @convention(c) @Sendable (OpaquePointer?, Int32) -> UnsafeMutableRawPointer?
    let X509_STORE_CTX_get_error: @convention(c) @Sendable (OpaquePointer?) -> Int32
    let X509_STORE_CTX_get_error_depth: @convention(c) @Sendable (OpaquePointer?) -> Int32
    let X509_STORE_CTX_get_current_cert: @convention(c) @Sendable (OpaquePointer?) -> OpaquePointer?
    let X509_verify_cert_error_string: @convention(c) @Sendable (Int) -> UnsafePointer<CChar>?
    let X509_get_default_cert_file: @convention(c) @Sendable () -> UnsafePointer<CChar>?
    let X509_get_default_cert_dir: @convention(c) @Sendable () -> UnsafePointer<CChar>?
    let X509_get_subject_name: @convention(c) @Sendable (OpaquePointer?) -> OpaquePointer?
    let X509_get_issuer_name: @convention(c) @Sendable (OpaquePointer?) -> OpaquePointer?
    let X509_NAME_print_ex: @convention(c) @Sendable (OpaquePointer?, OpaquePointer?, Int32, UInt) -> Int32
    let X509_get0_notBefore: @convention(c) @Sendable (OpaquePointer?) -> OpaquePointer?
    let X509_get0_notAfter: @convention(c) @Sendable (OpaquePointer?) -> OpaquePointer?
    let ASN1_TIME_to_tm: @convention(c) @Sendable (OpaquePointer?, UnsafeMutablePointer<tm>?) -> Int32
    let X509_get_ext_d2i:
        @convention(c) @Sendable (
            OpaquePointer?, Int32, UnsafeMutablePointer<Int32>?, UnsafeMutablePointer<Int32>?
        ) -> OpaquePointer?
    let OPENSSL_sk_num: @convention(c) @Sendable (OpaquePointer?) -> Int32
    let OPENSSL_sk_value: @convention(c) @Sendable (OpaquePointer?, Int32) -> OpaquePointer?
    let GENERAL_NAME_get0_value: @convention(c) @Sendable (OpaquePointer?, UnsafeMutablePointer<Int32>?) -> OpaquePointer?
    let GENERAL_NAMES_free: @convention(c) @Sendable (OpaquePointer?) -> Void
    let ASN1_STRING_get0_data: @convention(c) @Sendable (OpaquePointer?) -> UnsafePointer<UInt8>?
    let ASN1_STRING_length: @convention(c) @Sendable (OpaquePointer?) -> Int32

    init(_ library: OpenSSLSymbols) throws(TransportError) {
        self.OPENSSL_init_ssl = try library.find("OPENSSL_init_ssl")
        self.OpenSSL_version_num = try library.find("OpenSSL_version_num")
        self.ERR_peek_error = try library.find("ERR_peek_error")
        self.ERR_clear_error = try library.find("ERR_clear_error")
        self.ERR_reason_error_string = try library.find("ERR_reason_error_string")
        self.TLS_client_method = try library.find("TLS_client_method")
        self.TLS_server_method = try library.find("TLS_server_method")
        self.SSL_CTX_new = try library.find("SSL_CTX_new")
        self.SSL_CTX_free = try library.find("SSL_CTX_free")
        self.SSL_CTX_ctrl = try library.find("SSL_CTX_ctrl")
        self.SSL_CTX_set_options = try library.find("SSL_CTX_set_options")
        self.SSL_CTX_set_verify = try library.find("SSL_CTX_set_verify")
        self.SSL_CTX_load_verify_locations = try library.find("SSL_CTX_load_verify_locations")
        self.SSL_CTX_get_cert_store = try library.find("SSL_CTX_get_cert_store")
        self.SSL_CTX_use_certificate = try library.find("SSL_CTX_use_certificate")
        self.SSL_CTX_use_PrivateKey = try library.find("SSL_CTX_use_PrivateKey")
        self.SSL_CTX_add_client_CA = try library.find("SSL_CTX_add_client_CA")
        self.SSL_CTX_set_session_id_context = try library.find("SSL_CTX_set_session_id_context")
        self.SSL_new = try library.find("SSL_new")
        self.SSL_free = try library.find("SSL_free")
        self.SSL_ctrl = try library.find("SSL_ctrl")
        self.SSL_set_bio = try library.find("SSL_set_bio")
        self.SSL_set_ex_data = try library.find("SSL_set_ex_data")
        self.SSL_get_ex_data = try library.find("SSL_get_ex_data")
        self.SSL_get_ex_data_X509_STORE_CTX_idx = try library.find("SSL_get_ex_data_X509_STORE_CTX_idx")
        self.SSL_set_connect_state = try library.find("SSL_set_connect_state")
        self.SSL_set_accept_state = try library.find("SSL_set_accept_state")
        self.SSL_set1_host = try library.find("SSL_set1_host")
        self.SSL_set_hostflags = try library.find("SSL_set_hostflags")
        self.SSL_get0_param = try library.find("SSL_get0_param")
        self.X509_VERIFY_PARAM_set1_ip_asc = try library.find("X509_VERIFY_PARAM_set1_ip_asc")
        self.SSL_do_handshake = try library.find("SSL_do_handshake")
        self.SSL_read = try library.find("SSL_read")
        self.SSL_write = try library.find("SSL_write")
        self.SSL_shutdown = try library.find("SSL_shutdown")
        self.SSL_has_pending = try library.find("SSL_has_pending")
        self.SSL_get_error = try library.find("SSL_get_error")
        self.SSL_get_version = try library.find("SSL_get_version")
        self.BIO_get_new_index = try library.find("BIO_get_new_index")
        self.BIO_meth_new = try library.find("BIO_meth_new")
        self.BIO_meth_set_read = try library.find("BIO_meth_set_read")
        self.BIO_meth_set_write = try library.find("BIO_meth_set_write")
        self.BIO_meth_set_ctrl = try library.find("BIO_meth_set_ctrl")
        self.BIO_new = try library.find("BIO_new")
        self.BIO_free = try library.find("BIO_free")
        self.BIO_set_data = try library.find("BIO_set_data")
        self.BIO_get_data = try library.find("BIO_get_data")
        self.BIO_set_flags = try library.find("BIO_set_flags")
        self.BIO_clear_flags = try library.find("BIO_clear_flags")
        self.BIO_s_mem = try library.find("BIO_s_mem")
        self.BIO_new_mem_buf = try library.find("BIO_new_mem_buf")
        self.BIO_ctrl = try library.find("BIO_ctrl")
        self.PEM_read_bio_X509 = try library.find("PEM_read_bio_X509")
        self.PEM_read_bio_PrivateKey = try library.find("PEM_read_bio_PrivateKey")
        self.X509_free = try library.find("X509_free")
        self.EVP_PKEY_free = try library.find("EVP_PKEY_free")
        self.X509_STORE_add_cert = try library.find("X509_STORE_add_cert")
        self.X509_STORE_set_flags = try library.find("X509_STORE_set_flags")
        self.X509_STORE_CTX_get_ex_data = try library.find("X509_STORE_CTX_get_ex_data")
        self.X509_STORE_CTX_get_error = try library.find("X509_STORE_CTX_get_error")
        self.X509_STORE_CTX_get_error_depth = try library.find("X509_STORE_CTX_get_error_depth")
        self.X509_STORE_CTX_get_current_cert = try library.find("X509_STORE_CTX_get_current_cert")
        self.X509_verify_cert_error_string = try library.find("X509_verify_cert_error_string")
        self.X509_get_default_cert_file = try library.find("X509_get_default_cert_file")
        self.X509_get_default_cert_dir = try library.find("X509_get_default_cert_dir")
        self.X509_get_subject_name = try library.find("X509_get_subject_name")
        self.X509_get_issuer_name = try library.find("X509_get_issuer_name")
        self.X509_NAME_print_ex = try library.find("X509_NAME_print_ex")
        self.X509_get0_notBefore = try library.find("X509_get0_notBefore")
        self.X509_get0_notAfter = try library.find("X509_get0_notAfter")
        self.ASN1_TIME_to_tm = try library.find("ASN1_TIME_to_tm")
        self.X509_get_ext_d2i = try library.find("X509_get_ext_d2i")
        self.OPENSSL_sk_num = try library.find("OPENSSL_sk_num")
        self.OPENSSL_sk_value = try library.find("OPENSSL_sk_value")
        self.GENERAL_NAME_get0_value = try library.find("GENERAL_NAME_get0_value")
        self.GENERAL_NAMES_free = try library.find("GENERAL_NAMES_free")
        self.ASN1_STRING_get0_data = try library.find("ASN1_STRING_get0_data")
        self.ASN1_STRING_length = try library.find("ASN1_STRING_length")
    }
}

/// The constants of OpenSSL's headers that are used. They are equal in 3.x and 1.1.1.
enum OpenSSLConstant {
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
    /// XN_FLAG_ONELINE without ASN1_STRFLGS_ESC_MSB: control characters are escaped, but UTF-8 is not.
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

    /// SSL_R_…; values from 1000 are alerts from the peer.
    enum Reason {
        static let httpRequest: UInt = 156, noCertificate: UInt = 199, unsupportedProtocol: UInt = 258, wrongVersionNumber: UInt = 267
        static let packetTooLong: UInt = 198, unexpectedMessage: UInt = 244, noSharedCipher: UInt = 193
        static let unexpectedEnd: UInt = 294, unsupportedVersion: UInt = 259, badRecordType: UInt = 443, versionTooLow: UInt = 396
        static let handshakeFailureAlert: UInt = 1040, badCertificateAlert: UInt = 1042, certificateExpiredAlert: UInt = 1045
        static let certificateUnknownAlert: UInt = 1046, unknownAuthorityAlert: UInt = 1048
        static let protocolVersionAlert: UInt = 1070, unrecognizedNameAlert: UInt = 1112
        static let certificateRequiredAlert: UInt = 1116
    }
}

// RealtimeCrypto

#pragma once

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

// Keys an HMAC context for SHA-256; the parameter list is C's.
static inline int daybook_hmac_sha256_key(EVP_MAC_CTX *context, const unsigned char *key, size_t length) {
    char digest[] = "SHA256";
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    return EVP_MAC_init(context, key, length, parameters);
}

// Makes a public key of parameters; takes them over. NULL if they make none.
static inline EVP_PKEY *daybook_public_key(const char *type, OSSL_PARAM *parameters) {
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *context = parameters ? EVP_PKEY_CTX_new_from_name(NULL, type, NULL) : NULL;
    if (!context || EVP_PKEY_fromdata_init(context) != 1 ||
        EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, parameters) != 1) {
        key = NULL;
    }
    EVP_PKEY_CTX_free(context);
    OSSL_PARAM_free(parameters);
    return key;
}

// An RSA public key of its modulus and exponent, both big endian.
static inline EVP_PKEY *daybook_rsa_public_key(
    const unsigned char *modulus, int modulus_length, const unsigned char *exponent, int exponent_length
) {
    OSSL_PARAM *parameters = NULL;
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    BIGNUM *n = BN_bin2bn(modulus, modulus_length, NULL);
    BIGNUM *e = BN_bin2bn(exponent, exponent_length, NULL);
    if (builder && n && e && OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, n) == 1 &&
        OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, e) == 1) {
        parameters = OSSL_PARAM_BLD_to_param(builder);
    }
    EVP_PKEY *key = daybook_public_key("RSA", parameters);
    BN_free(n);
    BN_free(e);
    OSSL_PARAM_BLD_free(builder);
    return key;
}

// A P-256 public key of its uncompressed point: 4, x, y.
static inline EVP_PKEY *daybook_p256_public_key(const unsigned char *point, size_t length) {
    OSSL_PARAM *parameters = NULL;
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    if (builder && OSSL_PARAM_BLD_push_utf8_string(builder, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) == 1 &&
        OSSL_PARAM_BLD_push_octet_string(builder, OSSL_PKEY_PARAM_PUB_KEY, point, length) == 1) {
        parameters = OSSL_PARAM_BLD_to_param(builder);
    }
    EVP_PKEY *key = daybook_public_key("EC", parameters);
    OSSL_PARAM_BLD_free(builder);
    return key;
}

static inline int daybook_no_password(char *buffer, int size, int writes, void *context) {
    (void)buffer, (void)size, (void)writes, (void)context;
    return -1;
}

// A private key in PEM without a password: OpenSSL would ask for one on the terminal.
static inline EVP_PKEY *daybook_private_key(const void *pem, int length) {
    BIO *bio = BIO_new_mem_buf(pem, length);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, daybook_no_password, NULL) : NULL;
    BIO_free(bio);
    return key;
}

// Whether the last error is that no further block begins: the reason is behind a macro.
static inline int daybook_pem_is_at_end(void) {
    return ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
}

// Frees what OpenSSL allocated; its own name for it is a macro.
static inline void daybook_openssl_free(void *memory) { OPENSSL_free(memory); }

// The options of TLS connections are macros around variadic-like controls.
static inline int daybook_tls_at_least_1_2(SSL_CTX *context) {
    return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1;
}

// A write may take a part of what is offered, from an address of its own at each try.
static inline void daybook_tls_partial_writes(SSL_CTX *context) {
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

// A record's head and body in one call: whoever reads goes on until nothing is buffered.
static inline void daybook_tls_read_ahead(SSL_CTX *context) { SSL_CTX_set_read_ahead(context, 1); }

static inline int daybook_tls_name_server(SSL *connection, const char *name) {
    return SSL_set_tlsext_host_name(connection, name) == 1;
}

// New keys: OpenSSL's names for it are macros around a variadic function.
static inline EVP_PKEY *daybook_make_p256_key(void) { return EVP_EC_gen("P-256"); }
static inline EVP_PKEY *daybook_make_rsa_key(void) { return EVP_RSA_gen(2048); }

// Takes what was written to a memory BIO: its bytes stay the BIO's.
static inline long daybook_bio_bytes(BIO *bio, char **start) { return BIO_get_mem_data(bio, start); }

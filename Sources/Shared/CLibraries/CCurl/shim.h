#pragma once

#include <curl/curl.h>

// curl_easy_setopt and curl_easy_getinfo are variadic: one wrapper for each type of argument.
static inline CURLcode daybook_curl_set_long(CURL *handle, CURLoption option, long value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode daybook_curl_set_text(CURL *handle, CURLoption option, const char *value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode daybook_curl_set_list(CURL *handle, CURLoption option, struct curl_slist *value) {
    return curl_easy_setopt(handle, option, value);
}

typedef size_t (*daybook_curl_write)(char *bytes, size_t size, size_t count, void *context);
typedef int (*daybook_curl_progress)(
    void *context, curl_off_t down_total, curl_off_t down_now, curl_off_t up_total, curl_off_t up_now
);

static inline CURLcode daybook_curl_set_callbacks(
    CURL *handle, daybook_curl_write write, daybook_curl_progress progress, void *context
) {
    CURLcode code = curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, write);
    if (code == CURLE_OK) code = curl_easy_setopt(handle, CURLOPT_WRITEDATA, context);
    if (code == CURLE_OK) code = curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, progress);
    if (code == CURLE_OK) code = curl_easy_setopt(handle, CURLOPT_XFERINFODATA, context);
    if (code == CURLE_OK) code = curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
    return code;
}

static inline long daybook_curl_status(CURL *handle) {
    long status = 0;
    return curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK ? status : 0;
}

static inline CURLcode daybook_curl_global_init(void) { return curl_global_init(CURL_GLOBAL_DEFAULT); }

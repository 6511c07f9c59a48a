#pragma once

#include <stddef.h>
#include <stdint.h>

// A plain C view of simdjson's DOM parser. Documents of the tape and the string buffer: simdjson's doc/tape.md.

typedef struct daybook_json_parser daybook_json_parser;

typedef struct {
    int32_t code;           // 0 or one of DAYBOOK_JSON_…
    const uint64_t *tape;   // valid until the next parse or free; null on an error
    const uint8_t *strings;
} daybook_json_document;

enum {
    DAYBOOK_JSON_OK = 0,
    DAYBOOK_JSON_SYNTAX = 1,
    DAYBOOK_JSON_ENCODING = 2, // not UTF-8, or a lone surrogate
    DAYBOOK_JSON_NUMBER = 3,   // malformed, or outside what a double or 64 bits can hold
    DAYBOOK_JSON_DEPTH = 4,
    DAYBOOK_JSON_MEMORY = 5,
    DAYBOOK_JSON_EMPTY = 6,
    DAYBOOK_JSON_NUL = 7,      // a string holds U+0000
};

// Spare readable bytes that have to lie behind every body.
size_t daybook_json_padding(void);

// Null when memory is short.
daybook_json_parser *daybook_json_create(size_t maximum_depth);
void daybook_json_free(daybook_json_parser *parser);

// `body` must be followed by `daybook_json_padding()` readable bytes.
daybook_json_document daybook_json_parse(daybook_json_parser *parser, const uint8_t *body, size_t length);

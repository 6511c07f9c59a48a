#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct bare_walk bare_walk;

bare_walk *bare_walk_create(void);
void bare_walk_free(bare_walk *walk);

// Parses with simdjson and visits every key, string and number, checking nothing: what a decoder can't do without.
// Gives a sum over all of them, so that no visit can be left out; 0 when the document can't be parsed. `padded` is
// followed by 64 readable bytes.
uint64_t bare_walk_document(bare_walk *walk, const uint8_t *padded, size_t length);

#include <cstring>
#include <new>

#include "simdjson.h"

extern "C" {
#include "CSimdJSON.h"
}

struct daybook_json_parser {
    simdjson::dom::parser parser;
    size_t maximum_depth;
};

namespace {

// A parser that once saw a large body must not keep its memory (some 20 bytes per byte of body) for ever.
constexpr size_t kept_capacity = 1 << 20;
constexpr size_t first_capacity = 16 << 10;

int32_t category(simdjson::error_code code) {
    switch (code) {
    case simdjson::SUCCESS: return DAYBOOK_JSON_OK;
    case simdjson::UTF8_ERROR:
    case simdjson::STRING_ERROR: return DAYBOOK_JSON_ENCODING;
    case simdjson::NUMBER_ERROR:
    case simdjson::NUMBER_OUT_OF_RANGE: return DAYBOOK_JSON_NUMBER;
    case simdjson::DEPTH_ERROR: return DAYBOOK_JSON_DEPTH;
    case simdjson::CAPACITY:
    case simdjson::MEMALLOC: return DAYBOOK_JSON_MEMORY;
    case simdjson::EMPTY: return DAYBOOK_JSON_EMPTY;
    default: return DAYBOOK_JSON_SYNTAX;
    }
}

// simdjson lets an escaped U+0000 through; PostgreSQL's text does not take it.
bool holds_nul(const uint64_t *tape, const uint8_t *strings) {
    constexpr uint64_t payload_mask = 0x00FFFFFFFFFFFFFFULL;
    const size_t end = static_cast<size_t>(tape[0] & payload_mask);
    for (size_t index = 1; index < end; index++) {
        const uint8_t type = static_cast<uint8_t>(tape[index] >> 56);
        if (type == 'l' || type == 'u' || type == 'd') {
            index++; // the number itself stands in the next word
        } else if (type == '"') {
            const uint8_t *text = strings + (tape[index] & payload_mask);
            uint32_t length;
            std::memcpy(&length, text, sizeof(length));
            if (std::memchr(text + sizeof(length), 0, length) != nullptr) { return true; }
        }
    }
    return false;
}

} // namespace

extern "C" {

size_t daybook_json_padding(void) { return simdjson::SIMDJSON_PADDING; }

daybook_json_parser *daybook_json_create(size_t maximum_depth) {
    auto *made = new (std::nothrow) daybook_json_parser{simdjson::dom::parser(), maximum_depth};
    if (made == nullptr) { return nullptr; }
    if (made->parser.allocate(first_capacity, maximum_depth) != simdjson::SUCCESS) {
        delete made;
        return nullptr;
    }
    return made;
}

void daybook_json_free(daybook_json_parser *parser) { delete parser; }

daybook_json_document daybook_json_parse(daybook_json_parser *holder, const uint8_t *body, size_t length) {
    auto &parser = holder->parser;
    if (parser.capacity() > kept_capacity && length <= kept_capacity / 4) {
        parser = simdjson::dom::parser();
        auto failed = parser.allocate(first_capacity, holder->maximum_depth);
        if (failed) { return {DAYBOOK_JSON_MEMORY, nullptr, nullptr}; }
    }
    auto failed = parser.parse(body, length, false).error();
    if (failed) { return {category(failed), nullptr, nullptr}; }
    const uint64_t *tape = parser.doc.tape.get();
    const uint8_t *strings = parser.doc.string_buf.get();
    if (std::memchr(body, '\\', length) != nullptr && holds_nul(tape, strings)) {
        return {DAYBOOK_JSON_NUL, nullptr, nullptr};
    }
    return {DAYBOOK_JSON_OK, tape, strings};
}

} // extern "C"

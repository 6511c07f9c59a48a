#include <new>
#include <string_view>

#include "simdjson.h"

extern "C" {
#include "CBareWalk.h"
}

struct bare_walk {
    simdjson::dom::parser parser;
};

namespace {

uint64_t visit_text(std::string_view text) {
    return text.size() + (text.empty() ? 0 : static_cast<uint8_t>(text.front()));
}

uint64_t visit(simdjson::dom::element element) {
    switch (element.type()) {
    case simdjson::dom::element_type::OBJECT: {
        uint64_t sum = 0;
        for (auto [key, value] : simdjson::dom::object(element)) { sum += visit_text(key) + visit(value); }
        return sum;
    }
    case simdjson::dom::element_type::ARRAY: {
        uint64_t sum = 0;
        for (auto value : simdjson::dom::array(element)) { sum += visit(value); }
        return sum;
    }
    case simdjson::dom::element_type::STRING: return visit_text(std::string_view(element));
    case simdjson::dom::element_type::INT64: return static_cast<uint64_t>(int64_t(element));
    case simdjson::dom::element_type::UINT64: return uint64_t(element);
    case simdjson::dom::element_type::DOUBLE: return static_cast<uint64_t>(double(element));
    default: return 1;
    }
}

} // namespace

extern "C" {

bare_walk *bare_walk_create(void) { return new (std::nothrow) bare_walk(); }

void bare_walk_free(bare_walk *walk) { delete walk; }

uint64_t bare_walk_document(bare_walk *walk, const uint8_t *padded, size_t length) {
    simdjson::dom::element root;
    if (walk->parser.parse(padded, length, false).get(root) != simdjson::SUCCESS) { return 0; }
    return visit(root);
}

} // extern "C"

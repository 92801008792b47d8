/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Choosing records: see filter.h
 */

#include <gio/gio.h>
#include <string.h>

#include "symbolize/filter.h"
#include "util/closest.h"
#include "util/parse.h"

/* Limit of nested parentheses */
#define MAX_DEPTH   100

enum node_kind {
    NODE_AND,
    NODE_OR,
    NODE_NOT,
    NODE_EQUAL,
    NODE_DIFFERENT,
    NODE_LESS,
    NODE_AT_MOST,
    NODE_MORE,
    NODE_AT_LEAST,
    NODE_MATCHES,
    NODE_MATCHES_NOT,
    NODE_TRUE,                  /* a field that is true or false */
    NODE_AMONG,                 /* @names, @vcpus or @set */
};

struct node {
    enum node_kind kind;
    struct node *left;
    struct node *right;
    enum field field;
    int bit;                    /* of the class, or -1 */
    int64_t number;
    char *text;
    GRegex *regex;
    char **names;
    bool *vcpus;
    const struct record_set *set;
};

struct filter {
    struct node *root;
    GPtrArray *common;          /* of struct node * */
    bool uses_index;
};

struct parser {
    struct filter *filter;
    const char *text;
    const char *p;
    unsigned depth;
    GError **error;
};

static void node_free(struct node *n)
{
    if (n) {
        node_free(n->left);
        node_free(n->right);
        g_free(n->text);
        g_clear_pointer(&n->regex, g_regex_unref);
        g_strfreev(n->names);
        g_free(n->vcpus);
        g_free(n);
    }
}

void filter_free(struct filter *f)
{
    if (f) {
        node_free(f->root);
        g_ptr_array_unref(f->common);
        g_free(f);
    }
}

/* Returns NULL, or false. */
static void *filter_error(struct parser *p, const char *where,
                          const char *words)
{
    if (!*p->error) {
        g_autofree char *text = g_utf8_make_valid(p->text, -1);
        g_autofree char *rest = g_utf8_make_valid(where, -1);

        *g_utf8_offset_to_pointer(rest, MIN(g_utf8_strlen(rest, -1), 20)) = 0;
        g_set_error(p->error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT,
                    "%s, at '%s' of '%s'", words, *rest ? rest : "the end",
                    text);
    }
    return NULL;
}

static void skip_blanks(struct parser *p)
{
    p->p += strspn(p->p, " \t\n");
}

static bool take_token(struct parser *p, const char *token)
{
    skip_blanks(p);
    if (g_str_has_prefix(p->p, token)) {
        p->p += strlen(token);
        return true;
    }
    return false;
}

/* Parses "text", 'text' or a word; NULL after an error. */
static char *take_text(struct parser *p)
{
    const char *begin;
    GString *text;
    char quote;

    skip_blanks(p);
    begin = p->p;
    if (*begin != '"' && *begin != '\'') {
        p->p += strcspn(begin, " \t\n()&|\"'");
        return p->p > begin ? g_strndup(begin, p->p - begin) :
               filter_error(p, begin, "text expected");
    }
    quote = *p->p++;
    text = g_string_new(NULL);
    while (*p->p && *p->p != quote) {
        /* A backslash quotes a quote; any other is part of the pattern. */
        if (*p->p == '\\' && p->p[1] == quote) {
            p->p++;
        }
        g_string_append_c(text, *p->p++);
    }
    if (!*p->p) {
        g_string_free(text, TRUE);
        return filter_error(p, begin, "a quote is missing");
    }
    p->p++;
    return g_string_free(text, FALSE);
}

static bool take_number(struct parser *p, enum field_type type,
                        int64_t *value)
{
    const char *begin, *end;
    bool negative, is_time = type == FIELD_TYPE_TIME;
    uint64_t v;

    skip_blanks(p);
    begin = p->p;
    negative = *begin == '-';
    if (!g_ascii_isdigit(begin[negative])) {
        return filter_error(p, begin, "number expected");
    }
    if (!(is_time ? parse_text_time : parse_text_number)(
            begin + negative, &end, &v) || (is_time && v > INT64_MAX)) {
        return filter_error(p, begin, is_time ? "the time is too long" :
                            "the number is too large");
    }
    *value = negative ? -v : v;
    if (g_ascii_isalnum(*end) || *end == '_' || *end == '.') {
        return filter_error(p, begin, "this is not a number");
    }
    p->p = end;
    return true;
}

static struct node *parse_binary(struct parser *p, enum node_kind kind);

static bool take_operator(struct parser *p, enum node_kind *kind)
{
    static const struct {
        const char *text;
        enum node_kind kind;
    } operators[] = {
        { "==", NODE_EQUAL }, { "!=", NODE_DIFFERENT },
        { "=~", NODE_MATCHES }, { "!~", NODE_MATCHES_NOT },
        { "<=", NODE_AT_MOST }, { ">=", NODE_AT_LEAST },
        { "<", NODE_LESS }, { ">", NODE_MORE }, { "~", NODE_MATCHES },
        { "=", NODE_EQUAL },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(operators); i++) {
        if (take_token(p, operators[i].text)) {
            *kind = operators[i].kind;
            return true;
        }
    }
    return false;
}

/* Parses the value that a field is compared with; false after an error. */
static bool parse_value(struct parser *p, struct node *n, const char *where)
{
    g_autoptr(GError) error = NULL;
    bool pattern = n->kind == NODE_MATCHES || n->kind == NODE_MATCHES_NOT;

    if (field_type(n->field) != FIELD_TYPE_TEXT) {
        if (pattern) {
            return filter_error(p, where, "~ is for text; compare a number "
                                "with ==, <, > and so on");
        }
        return take_number(p, field_type(n->field), &n->number);
    }
    if (!pattern && n->kind != NODE_EQUAL && n->kind != NODE_DIFFERENT) {
        return filter_error(p, where, "compare text with ==, != or ~");
    }
    n->text = take_text(p);
    if (n->text && pattern) {
        n->regex = g_regex_new(n->text, G_REGEX_OPTIMIZE, 0, &error);
        if (!n->regex) {
            return filter_error(p, where, error->message);
        }
    }
    return n->text;
}

/* Returns NULL, after an error that lists the fields. */
static struct node *unknown_field(struct parser *p, const char *where,
                                  const char *name)
{
    struct closest closest = closest_to(name);
    g_autoptr(GString) words = g_string_new(NULL);
    g_autofree char *hint = NULL;

    for (unsigned i = 0; field_name(i); i++) {
        closest_offer(&closest, field_name(i));
    }
    hint = closest_hint(&closest);
    g_string_printf(words, "unknown field '%s'%s; the fields are", name, hint);
    for (unsigned i = 0; field_name(i); i++) {
        g_string_append_printf(words, " %s", field_name(i));
    }
    return filter_error(p, where, words->str);
}

static struct node *parse_comparison(struct parser *p)
{
    struct node *n = g_new0(struct node, 1);
    g_autofree char *name = NULL;
    const char *begin;

    skip_blanks(p);
    begin = p->p;
    while (g_ascii_isalnum(*p->p) || *p->p == '_') {
        p->p++;
    }
    name = g_strndup(begin, p->p - begin);
    n->bit = -1;
    n->field = field_find(name);
    if (n->field == N_FIELDS) {
        node_free(n);
        return *name ? unknown_field(p, begin, name) :
               filter_error(p, begin, "the name of a field is missing");
    }
    if (field_type(n->field) == FIELD_TYPE_BOOL) {
        n->kind = NODE_TRUE;
        return n;
    }
    if (!take_operator(p, &n->kind)) {
        node_free(n);
        return filter_error(p, p->p, "a comparison is missing (==, !=, <, "
                            "<=, >, >=, ~, !~)");
    }
    if (!parse_value(p, n, begin)) {
        node_free(n);
        return NULL;
    }
    if (field_is_common(n->field)) {
        if (p->filter->common->len == FILTER_MAX_COMMON) {
            node_free(n);
            return filter_error(p, begin, "too many comparisons");
        }
        n->bit = p->filter->common->len;
        g_ptr_array_add(p->filter->common, n);
    }
    p->filter->uses_index |= n->field == FIELD_INDEX;
    return n;
}

static struct node *new_node(enum node_kind kind, struct node *left,
                         struct node *right)
{
    struct node *n = g_new0(struct node, 1);

    n->kind = kind;
    n->left = left;
    n->right = right;
    return n;
}

static struct node *parse_not(struct parser *p)
{
    struct node *n;

    if (p->depth++ == MAX_DEPTH) {
        return filter_error(p, p->p, "parentheses are nested too deeply");
    }
    if (take_token(p, "!")) {
        n = parse_not(p);
        n = n ? new_node(NODE_NOT, n, NULL) : NULL;
    } else if (take_token(p, "(")) {
        n = parse_binary(p, NODE_OR);
        if (n && !take_token(p, ")")) {
            node_free(n);
            n = filter_error(p, p->p, "a ) is missing");
        }
    } else {
        n = parse_comparison(p);
    }
    p->depth--;
    return n;
}

/* Parses operands with && between them, or, of those, with || between them. */
static struct node *parse_binary(struct parser *p, enum node_kind kind)
{
    bool and = kind == NODE_AND;
    struct node *n = and ? parse_not(p) : parse_binary(p, NODE_AND);

    while (n && (take_token(p, and ? "&&" : "||") ||
                 take_token(p, and ? "and " : "or "))) {
        struct node *right = and ? parse_not(p) : parse_binary(p, NODE_AND);

        if (!right) {
            node_free(n);
            return NULL;
        }
        n = new_node(kind, n, right);
    }
    return n;
}

static struct filter *filter_new(void)
{
    struct filter *f = g_new0(struct filter, 1);

    f->common = g_ptr_array_new();
    return f;
}

struct filter *filter_parse(const char *text, GError **error)
{
    g_autoptr(GError) own = NULL;
    struct filter *f = filter_new();
    struct parser p = { f, text, text, 0, &own };

    if (g_utf8_validate(text, -1, NULL)) {
        f->root = parse_binary(&p, NODE_OR);
        skip_blanks(&p);
        if (f->root && *p.p) {
            filter_error(&p, p.p, "the expression has ended before this");
        }
    } else {
        filter_error(&p, "", "the expression is not UTF-8");
    }
    if (own) {
        g_propagate_error(error, g_steal_pointer(&own));
        filter_free(f);
        return NULL;
    }
    return f;
}

static struct node *add_among(struct filter *f, enum field field)
{
    struct node *n = new_node(NODE_AMONG, NULL, NULL);

    n->field = field;
    n->bit = f->common->len;
    g_ptr_array_add(f->common, n);
    f->root = f->root ? new_node(NODE_AND, f->root, n) : n;
    return n;
}

struct filter *filter_restrict(struct filter *f, char *const *commands,
                               const bool *vcpus)
{
    if (!f && (commands || vcpus)) {
        f = filter_new();
    }
    if (commands) {
        add_among(f, FIELD_COMM)->names = g_strdupv((char **)commands);
    }
    if (vcpus) {
        add_among(f, FIELD_CPU)->vcpus = g_memdup2(
            vcpus, BTRAIL_MAX_VCPUS * sizeof(*vcpus));
    }
    return f;
}

struct filter *filter_within(struct filter *f, const struct record_set *set)
{
    f = f ?: filter_new();
    add_among(f, FIELD_INDEX)->set = set;
    f->uses_index = true;
    return f;
}

bool filter_uses_index(const struct filter *f)
{
    return f->uses_index;
}

/*
 * A name is compared as JSON has it.  GRegex does not check whether it is
 * UTF-8, and may read beyond it if it is not.
 */
static bool compare_text(const struct node *n, const char *text)
{
    g_autofree char *valid = NULL;

    if (!g_utf8_validate(text, -1, NULL)) {
        text = valid = g_utf8_make_valid(text, -1);
    }
    switch (n->kind) {
    case NODE_EQUAL:
        return !strcmp(text, n->text);
    case NODE_DIFFERENT:
        return strcmp(text, n->text);
    case NODE_MATCHES:
        return g_regex_match(n->regex, text, 0, NULL);
    case NODE_AMONG:
        return g_strv_contains((const char *const *)n->names, text);
    default:
        return !g_regex_match(n->regex, text, 0, NULL);
    }
}

static bool compare_order(const struct node *n, int order)
{
    switch (n->kind) {
    case NODE_EQUAL:
        return !order;
    case NODE_DIFFERENT:
        return order;
    case NODE_LESS:
        return order < 0;
    case NODE_AT_MOST:
        return order <= 0;
    case NODE_MORE:
        return order > 0;
    default:
        return order >= 0;
    }
}

/* An unknown value is -1, and neither less nor more than any other. */
static bool compare_signed(const struct node *n, int64_t v)
{
    if (v == -1 && n->number != -1) {
        return n->kind == NODE_DIFFERENT;
    }
    return compare_order(n, v < n->number ? -1 : v > n->number);
}

static bool compare_unsigned(const struct node *n, uint64_t v)
{
    uint64_t number = n->number;

    return compare_order(n, v < number ? -1 : v > number);
}

/* It may be named as the guest has it, without BTRAIL_CR3_PAE. */
static bool compare_cr3(const struct node *n, uint64_t cr3)
{
    if (btrail_cr3_is(cr3, n->number)) {
        return compare_order(n, 0);
    }
    return compare_unsigned(n, n->number & BTRAIL_CR3_PAE ? cr3 :
                               cr3 & ~BTRAIL_CR3_PAE);
}

static bool compare_field(const struct node *n, const struct named_record *r)
{
    char buf[FIELD_TEXT];
    uint64_t value;

    if (n->vcpus) {
        return n->vcpus[r->vcpu];
    }
    if (n->set) {
        return record_set_has(n->set, r->vcpu, r->index, NULL);
    }
    if (field_type(n->field) == FIELD_TYPE_TEXT) {
        /* A function has several names. */
        if ((n->kind == NODE_EQUAL || n->kind == NODE_DIFFERENT) &&
            field_is_function(n->field, r, n->text)) {
            return n->kind == NODE_EQUAL;
        }
        return compare_text(n, field_text(n->field, r, buf));
    }
    value = field_number(n->field, r);
    switch (field_type(n->field)) {
    case FIELD_TYPE_SIGNED:
    case FIELD_TYPE_TIME:
        return compare_signed(n, value);
    case FIELD_TYPE_CR3:
        return compare_cr3(n, value);
    case FIELD_TYPE_BOOL:
        return value;
    default:
        return compare_unsigned(n, value);
    }
}

/* The same as filter_until(), of a node */
static uint64_t node_until(const struct node *n, const struct named_record *r)
{
    uint64_t until, number = n->number;

    if (n->field != FIELD_INDEX) {
        return UINT64_MAX;
    }
    if (n->set) {
        record_set_has(n->set, r->vcpu, r->index, &until);
        return until;
    }
    return r->index < number ? number :
           r->index == number && number < UINT64_MAX ? number + 1 :
           UINT64_MAX;
}

uint64_t filter_until(const struct filter *f, const struct named_record *r)
{
    uint64_t until = UINT64_MAX;

    for (unsigned i = 0; f->uses_index && i < f->common->len; i++) {
        until = MIN(until, node_until(f->common->pdata[i], r));
    }
    return until;
}

uint64_t filter_class(const struct filter *f, const struct named_record *r)
{
    uint64_t class = 0;

    for (unsigned i = 0; i < f->common->len; i++) {
        class |= (uint64_t)compare_field(f->common->pdata[i], r) << i;
    }
    return class;
}

uint64_t filter_class_within(const struct filter *f, uint64_t class)
{
    for (unsigned i = 0; i < f->common->len; i++) {
        const struct node *n = f->common->pdata[i];

        class |= (uint64_t)(n->set != NULL) << i;
    }
    return class;
}

static bool chooses(const struct node *n, uint64_t class,
                    const struct named_record *r)
{
    switch (n->kind) {
    case NODE_AND:
        return chooses(n->left, class, r) && chooses(n->right, class, r);
    case NODE_OR:
        return chooses(n->left, class, r) || chooses(n->right, class, r);
    case NODE_NOT:
        return !chooses(n->left, class, r);
    default:
        return n->bit >= 0 ? class >> n->bit & 1 : compare_field(n, r);
    }
}

bool filter_chooses(const struct filter *f, uint64_t class,
                    const struct named_record *r)
{
    return chooses(f->root, class, r);
}

/* The result of a node, if only the class is known */
enum verdict {
    NEVER,
    MAYBE,
    ALWAYS,
};

static enum verdict judge(const struct node *n, uint64_t class)
{
    enum verdict left, right;

    if (n->kind != NODE_AND && n->kind != NODE_OR && n->kind != NODE_NOT) {
        return n->bit < 0 ? MAYBE : class >> n->bit & 1 ? ALWAYS : NEVER;
    }
    left = judge(n->left, class);
    if (n->kind == NODE_NOT) {
        return ALWAYS - left;
    }
    right = judge(n->right, class);
    return n->kind == NODE_AND ? MIN(left, right) : MAX(left, right);
}

bool filter_may_choose(const struct filter *f, uint64_t class)
{
    return judge(f->root, class) != NEVER;
}

bool filter_matches(const struct filter *f, const struct named_record *r)
{
    return chooses(f->root, filter_class(f, r), r);
}

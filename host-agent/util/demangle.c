/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names as they are in the source: see demangle.h
 */

#include <glib.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "util/demangle.h"
#include "util/plain-name.h"

/* What back references of D may add up to: libiberty follows all of them, and
 * has it all in memory. */
#define D_EXPANDED_MAX  DEMANGLE_MAX

struct text {
    char buf[DEMANGLE_MAX];
    size_t size;
    jmp_buf full;
};

/*
 * Substitutions can make a name of a few bytes infinite in practice, and
 * libiberty, which has allocated nothing here, can only be left like this.
 */
static void add(const char *part, size_t n, void *opaque)
{
    struct text *t = opaque;

    if (n >= sizeof(t->buf) - t->size) {
        longjmp(t->full, 1);
    }
    memcpy(t->buf + t->size, part, n);
    t->size += n;
}

typedef int callback_fn(const char *mangled, int options,
                        demangle_callbackref callback, void *opaque);

static char *call(callback_fn *fn, const char *mangled, int options)
{
    struct text t;

    t.size = 0;
    if (setjmp(t.full) || !fn(mangled, options, add, &t)) {
        return NULL;
    }
    return g_strndup(t.buf, t.size);
}

/* What compilers add has no form of its own in Rust. */
static char *demangle_rust(const char *symbol, bool whole)
{
    size_t n = plain_name(symbol);
    g_autofree char *plain = g_strndup(symbol, n);
    g_autofree char *name = call(rust_demangle_callback, plain, DMGL_NO_OPTS);

    return !name || !whole || !symbol[n] ? g_steal_pointer(&name) :
           g_strdup_printf("%s [clone %s]", name, symbol + n);
}

/*
 * Is what back references of D stand for short enough?  'Q' can begin one, and
 * says in base 26, the last digit in lower case, how far it is back: to a
 * number and a name, or to a type, which can have others in it, and which ends
 * before the reference.
 */
static bool is_short_d(const char *symbol)
{
    size_t n = strlen(symbol);
    g_autofree uint64_t *sums = g_new0(uint64_t, n + 1);

    for (size_t i = 0; i < n; i++) {
        uint64_t back = 0, size = 1;
        const char *c = symbol + i + 1;

        if (symbol[i] == 'Q') {
            for (; g_ascii_isupper(*c) && back <= n; c++) {
                back = back * 26 + (*c - 'A');
            }
            back = back * 26 + (*c - 'a');
            if (g_ascii_islower(*c) && back && back <= i) {
                size = g_ascii_isdigit(symbol[i - back]) ?
                       MIN(strtoull(symbol + i - back, NULL, 10), n) :
                       sums[i] - sums[i - back];
            }
        }
        sums[i + 1] = sums[i] + size;
        if (sums[i + 1] > D_EXPANDED_MAX) {
            return false;
        }
    }
    return true;
}

/* The length of a name without its parameters */
static size_t without_parameters(const char *name)
{
    unsigned depth = 0;

    for (size_t n = strlen(name); n; n--) {
        depth += name[n - 1] == ')';
        depth -= name[n - 1] == '(';
        if (!depth) {
            return name[n - 1] == '(' ? n - 1 : n;
        }
    }
    return strlen(name);
}

/* Parameters are always there, and after them nothing. */
static char *demangle_d(const char *symbol, bool whole)
{
    char *name = is_short_d(symbol) ? dlang_demangle(symbol, DMGL_NO_OPTS) :
                 NULL;
    char *copy = !name || strlen(name) >= DEMANGLE_MAX ? NULL : whole ?
        g_strdup(name) : g_strndup(name, without_parameters(name));

    free(name);
    return copy;
}

static char *demangle_any(const char *symbol, bool whole)
{
    int options = whole ? DMGL_PARAMS | DMGL_ANSI : DMGL_NO_OPTS;
    char *name;

    /* Names of Rust can be names of C++, with a hash. */
    switch (symbol[1]) {
    case 'Z':
        name = demangle_rust(symbol, whole);
        return name ? name : call(cplus_demangle_v3_callback, symbol, options);
    case 'R':
        return demangle_rust(symbol, whole);
    case 'D':
        return demangle_d(symbol, whole);
    default:
        return NULL;
    }
}

char *demangle(const char *symbol, bool whole)
{
    char *name;

    if (symbol[0] != '_' ||
        strnlen(symbol, DEMANGLE_MANGLED_MAX) == DEMANGLE_MANGLED_MAX) {
        return NULL;
    }
    name = demangle_any(symbol, whole);
    /* Who reads it expects what all other names are. */
    if (name && (!*name || !g_utf8_validate(name, -1, NULL))) {
        g_clear_pointer(&name, g_free);
    }
    return name;
}

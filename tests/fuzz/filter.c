/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: an expression that chooses records
 *
 * The input is the expression.  Records that differ in all that one can ask
 * for are chosen by it, in one step and in two.
 */

#include <gio/gio.h>
#include <string.h>

#include "symbolize/filter.h"
#include "fuzz.h"

/* Nobody writes longer ones. */
#define MAX_TEXT    4096

/* What filter.c asks for lines */
bool symbolizer_line(struct symbolizer *s, const struct place *place,
                     const char **file, unsigned *line)
{
    *file = "/src/a.c";
    *line = place->offset;
    return place->offset;
}

static struct module modules[] = {
    { .name = "[kernel.kallsyms]", .kernel = true },
    { .name = "libc.so.6" },
    { .name = "" },
};
static const struct function functions[] = {
    { .name = "do_idle", .symbol = "do_idle", .module = &modules[0],
      .known = true },
    { .name = "[unknown]", .symbol = "[unknown]", .module = &modules[1] },
    { .name = "f\xc3\xa4", .symbol = "f\xc3\xa4", .module = &modules[2],
      .known = true },
};
static const struct process processes[] = {
    { .comm = "sh", .pid = 12, .tid = -1, .cr3 = 0x1000 },
    { .comm = "", .pid = -1, .tid = -1, .cr3 = UINT64_MAX },
    { .comm = "[kernel]", .pid = 0, .tid = 0, .known = true },
};

static void check(const struct filter *f, unsigned i)
{
    const struct place from = {
        .function = &functions[i % 3], .offset = i & 1,
    };
    const struct place to = { .function = &functions[i / 3 % 3] };
    const struct named_record r = {
        .vcpu = i, .index = i == 5 ? UINT64_MAX : i,
        .time = (int64_t)i * 1000000000 - 1,
        .from = i & 2 ? UINT64_MAX - i : i, .to = i * 0x1000,
        .process = &processes[i % 3], .from_place = i & 4 ? &from : NULL,
        .to_place = i & 4 ? &to : NULL,
        .lines = i & 8 ? (struct symbolizer *)f : NULL,
    };
    struct named_record edge = r;
    uint64_t class = filter_class(f, &r);
    bool chosen = filter_matches(f, &r);

    /* Of the second step these are none of the business. */
    edge.vcpu = 99;
    edge.index = 99;
    edge.time = 99;
    fuzz_require(filter_chooses(f, class, &edge) == chosen);
    fuzz_require(!chosen || filter_may_choose(f, class));
    edge = r;
    edge.index++;
    fuzz_require(filter_uses_index(f) || filter_class(f, &edge) == class);
}

int fuzz_input(const uint8_t *data, size_t size)
{
    g_autofree char *text = g_strndup((const char *)data,
                                      MIN(size, MAX_TEXT));
    g_autoptr(GError) error = NULL;
    struct filter *f = filter_parse(text, &error);
    unsigned i;

    fuzz_require(!f == !!error);
    fuzz_require(f || g_utf8_validate(error->message, -1, NULL));
    if (f) {
        fuzz_accepted();
        for (i = 0; i < 18; i++) {
            check(f, i);
        }
        filter_free(f);
    }
    return 0;
}

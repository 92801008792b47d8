/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: a file of --map
 *
 * The input is the file.  What it says is then looked up everywhere where it
 * says something.
 */

#include <gio/gio.h>
#include <string.h>

#include "backtrail/trace.h"
#include "fuzz.h"
#include "symbolize/map-file.h"

static void check_address(struct address_space *as, uint64_t address)
{
    const struct mapping *m = address_space_find(as, address);
    struct symbol s;
    bool found = address_space_symbol(as, address, &s);

    fuzz_require(!m || (m->start <= address && address < m->end && m->path));
    /* The last one of all has no end. */
    fuzz_require(!found || (s.start <= address && s.name &&
                            (address < s.end || s.end == UINT64_MAX)));
}

static void check_space(struct address_space *as)
{
    struct mapping *m;
    uint64_t address;
    size_t i, n;

    m = address_space_mappings(as, &n);
    for (i = 0; i < n; i++) {
        fuzz_require(m[i].start < m[i].end);
        fuzz_require(!i || m[i - 1].end <= m[i].start);
        fuzz_require(address_space_find(as, m[i].start) == &m[i]);
        check_address(as, m[i].start - 1);
        check_address(as, m[i].end - 1);
        check_address(as, m[i].end);
    }
    check_address(as, 0);
    check_address(as, UINT64_MAX);
    if (address_space_symbol_find(as, "_text", &address)) {
        check_address(as, address);
    }
}

static void check_functions(const struct map_file *map)
{
    static const uint8_t id[COMPILED_FUNCTIONS_ID];
    const struct map_functions *f;

    for (unsigned i = 0; (f = map_file_functions(map, i)); i++) {
        const struct compiled_function *all =
            (const struct compiled_function *)f->all->data;
        GByteArray *file = compiled_functions_file(
            all, f->all->len, f->names->str, 1 << 20, id);

        fuzz_require(!file == !f->all->len);
        for (guint j = 0; j < f->all->len; j++) {
            fuzz_require(all[j].start < all[j].end &&
                         all[j].name < f->names->len);
        }
        if (file) {
            g_byte_array_unref(file);
        }
    }
}

int fuzz_input(const uint8_t *data, size_t size)
{
    g_autofree char *text = g_strndup((const char *)data, size);
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    g_autoptr(GError) error = NULL;
    struct map_file *map = map_file_parse(text, "file", &error);
    unsigned i;

    fuzz_require(!map == !!error);
    if (!map) {
        return 0;
    }
    fuzz_accepted();
    check_space(map_file_shared(map));
    check_functions(map);
    for (i = 0; lines[i]; i++) {
        const char *line = g_strstrip(lines[i]);
        struct map_process *p;
        uint64_t cr3;

        if (!g_str_has_prefix(line, "cr3 ")) {
            continue;
        }
        line += 4 + strspn(line + 4, " \t");
        cr3 = g_ascii_strtoull(line, NULL, 16);
        p = map_file_process(map, cr3);
        fuzz_require(p || *line == '*');
        if (p) {
            fuzz_require(p->cr3 == btrail_cr3_root(cr3));
            fuzz_require(p->pid >= -1 && p->pid <= INT32_MAX);
            fuzz_require(!p->name || *p->name);
            check_space(p->space);
        }
    }
    map_file_free(map);
    return 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files that a trace has mapped: see missing-files.h
 */

#include <glib/gstdio.h>
#include <stdlib.h>

#include "cli/missing-files.h"
#include "cli/print.h"
#include "util/hash.h"

/* A guest can have any number of files mapped. */
#define MAX_FILES   4096

static void free_file(gpointer p)
{
    struct missing_file *file = p;

    g_free(file->path);
    g_free(file);
}

static void add_mapping(GHashTable *missing, struct elf_files *files,
                        const struct btrail_mapping *m, uint32_t pid)
{
    struct missing_file *file;
    GString *id;

    if (!(m->flags & BTRAIL_MAPPING_EXEC) ||
        !(m->flags & BTRAIL_MAPPING_FILE) || m->build_id_size < 2 ||
        *m->path != '/' || g_hash_table_size(missing) == MAX_FILES) {
        return;
    }
    id = g_string_new(NULL);
    for (uint32_t i = 0; i < m->build_id_size; i++) {
        g_string_append_printf(id, "%02x", m->build_id[i]);
    }
    if (!g_hash_table_contains(missing, id->str) &&
        !elf_files_get(files, m->path, id->str)) {
        file = g_new(struct missing_file, 1);
        *file = (struct missing_file) { g_strdup(m->path), pid };
        g_hash_table_insert(missing, g_strdup(id->str), file);
    }
    g_string_free(id, TRUE);
}

GHashTable *missing_files_new(const struct btrail_trace *trace,
                              struct elf_files *files)
{
    GHashTable *missing = g_hash_table_new_full(btrail_str_hash, g_str_equal,
                                                g_free, free_file);
    struct btrail_sideband_info info;
    void *data;

    for (unsigned i = 0; btrail_trace_sideband(trace, i, &info, NULL) !=
         -BTRAIL_ERR_END; i++) {
        struct btrail_snapshot *s;

        if ((info.kind != BTRAIL_SIDEBAND_PROCESSES &&
             info.kind != BTRAIL_SIDEBAND_TOLD_PROCESSES) ||
            btrail_trace_sideband(trace, i, &info, &data)) {
            continue;
        }
        if (!btrail_snapshot_decode(&s, data, info.size)) {
            for (uint32_t k = 0; k < s->n; k++) {
                for (uint32_t m = 0; m < s->processes[k].n_mappings; m++) {
                    add_mapping(missing, files,
                                &s->processes[k].mappings[m],
                                s->processes[k].pid);
                }
            }
            btrail_snapshot_free(s);
        }
        free(data);
    }
    return missing;
}

void missing_files_report(const char *option, const char *there,
                          unsigned found, unsigned all)
{
    if (found < all) {
        cli_error("%s: %u of the %u files of the trace that were missing are "
                  "not %s, or are others there", option, all - found, all,
                  there);
    }
}

bool missing_file_keep(const char *path, const char *id)
{
    struct elf_file *f = elf_file_open(path);
    bool same = f && !g_strcmp0(elf_file_info(f)->build_id, id);

    elf_file_close(f);
    if (!same) {
        g_unlink(path);
    }
    return same;
}

char *missing_file_place(const char *folder, const char *id)
{
    char *place = g_strdup_printf("%s/.build-id/%.2s/%s", folder, id, id + 2);
    g_autofree char *parent = g_path_get_dirname(place);

    if (g_mkdir_with_parents(parent, 0700)) {
        g_clear_pointer(&place, g_free);
    }
    return place;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files of a guest out of its disk: see disk-image.h
 *
 * The guest chooses what its paths and disks have.  libguestfs reads the disk
 * in a virtual machine of its own; on the host a file is named by the digits of
 * its build-id.
 */

#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/disk-image.h"
#include "util/hash.h"

/* A guest can have any number of files mapped. */
#define MAX_FILES   4096

static const char *const formats[] = { "raw", "qcow2", "vmdk", "vdi", "vhdx" };

/* Can guestfish read a path of the guest out of a line of its script? */
static bool is_plain(const char *path)
{
    if (*path != '/') {
        return false;
    }
    for (; *path; path++) {
        if (g_ascii_iscntrl(*path) || strchr("\"\\", *path)) {
            return false;
        }
    }
    return true;
}

static void add_mapping(GHashTable *missing, struct elf_files *files,
                        const struct btrail_mapping *m)
{
    GString *id;

    if (!(m->flags & BTRAIL_MAPPING_EXEC) || m->build_id_size < 2 ||
        !is_plain(m->path) || g_hash_table_size(missing) == MAX_FILES) {
        return;
    }
    id = g_string_new(NULL);
    for (uint32_t i = 0; i < m->build_id_size; i++) {
        g_string_append_printf(id, "%02x", m->build_id[i]);
    }
    if (!g_hash_table_contains(missing, id->str) &&
        !elf_files_get(files, m->path, id->str)) {
        g_hash_table_insert(missing, g_strdup(id->str), g_strdup(m->path));
    }
    g_string_free(id, TRUE);
}

/* {build-id: path} of what is missing */
static GHashTable *find_missing(const struct btrail_trace *trace,
                                struct elf_files *files)
{
    GHashTable *missing = g_hash_table_new_full(btrail_str_hash, g_str_equal,
                                                g_free, g_free);
    struct btrail_sideband_info info;
    void *data;

    for (unsigned i = 0; btrail_trace_sideband(trace, i, &info, NULL) !=
         -BTRAIL_ERR_END; i++) {
        struct btrail_snapshot *s;

        if (info.kind != BTRAIL_SIDEBAND_PROCESSES ||
            btrail_trace_sideband(trace, i, &info, &data)) {
            continue;
        }
        if (!btrail_snapshot_decode(&s, data, info.size)) {
            for (uint32_t k = 0; k < s->n; k++) {
                for (uint32_t m = 0; m < s->processes[k].n_mappings; m++) {
                    add_mapping(missing, files,
                                &s->processes[k].mappings[m]);
                }
            }
            btrail_snapshot_free(s);
        }
        free(data);
    }
    return missing;
}

static void add_disk(GPtrArray *argv, const char *disk)
{
    const char *path = strchr(disk, ':');

    for (unsigned i = 0; path && i < G_N_ELEMENTS(formats); i++) {
        if (strlen(formats[i]) == (size_t)(path - disk) &&
            g_str_has_prefix(disk, formats[i])) {
            g_ptr_array_add(argv, g_strdup_printf("--format=%s", formats[i]));
            g_ptr_array_add(argv, g_strdup("-a"));
            g_ptr_array_add(argv, g_strdup(path + 1));
            return;
        }
    }
    g_ptr_array_add(argv, g_strdup("--format"));
    g_ptr_array_add(argv, g_strdup("-a"));
    g_ptr_array_add(argv, g_strdup(disk));
}

/* Has guestfish execute a script.  False after an error message. */
static bool run_guestfish(char *const *disks, const char *script)
{
    g_autofree char *program = g_find_program_in_path("guestfish");
    g_autoptr(GPtrArray) argv = g_ptr_array_new_with_free_func(g_free);
    g_autofree char *err = NULL;
    g_autoptr(GError) error = NULL;
    int status;

    if (!program) {
        cli_error("--image: guestfish is not installed; it is in the package "
                  "guestfish of Debian 12 and 13, or libguestfs elsewhere");
        return false;
    }
    g_ptr_array_add(argv, g_steal_pointer(&program));
    g_ptr_array_add(argv, g_strdup("--ro"));
    for (; *disks; disks++) {
        add_disk(argv, *disks);
    }
    /* Mounts what the guest does. */
    g_ptr_array_add(argv, g_strdup("-i"));
    g_ptr_array_add(argv, g_strdup("-f"));
    g_ptr_array_add(argv, g_strdup(script));
    g_ptr_array_add(argv, NULL);
    if (!g_spawn_sync(NULL, (char **)argv->pdata, NULL,
                      G_SPAWN_STDOUT_TO_DEV_NULL, NULL, NULL, NULL, &err,
                      &status, &error) ||
        !g_spawn_check_wait_status(status, &error)) {
        g_strchomp(err ?: (err = g_strdup("")));
        cli_error("--image: guestfish: %s%s%s", error->message,
                  *err ? ": " : "", err);
        return false;
    }
    return true;
}

/* Removes a file that is another one than was looked for.  Is it there? */
static bool keep_if(const char *path, const char *id)
{
    struct elf_file *f = elf_file_open(path);
    bool same = f && !g_strcmp0(elf_file_info(f)->build_id, id);

    elf_file_close(f);
    if (!same) {
        g_unlink(path);
    }
    return same;
}

static char *place_of(const char *folder, const char *id)
{
    return g_strdup_printf("%s/.build-id/%.2s/%s", folder, id, id + 2);
}

/* A script that downloads each file to its place; NULL after an error */
static char *write_script(GHashTable *missing, const char *folder)
{
    GString *text = g_string_new(NULL);
    char *path = g_build_filename(folder, "script-XXXXXX", NULL);
    GHashTableIter iter;
    gpointer id, guest;
    bool ok = true;
    int fd;

    g_hash_table_iter_init(&iter, missing);
    while (g_hash_table_iter_next(&iter, &id, &guest)) {
        g_autofree char *place = place_of(folder, id);
        g_autofree char *parent = g_path_get_dirname(place);

        ok &= !g_mkdir_with_parents(parent, 0700) && is_plain(place);
        /* "-": go on if the file is not there. */
        g_string_append_printf(text, "-download \"%s\" \"%s\"\n",
                               (char *)guest, place);
    }
    fd = ok ? g_mkstemp(path) : -1;
    if (fd < 0 || !g_file_set_contents(path, text->str, text->len, NULL)) {
        cli_error("--image: cannot write to %s", folder);
        g_clear_pointer(&path, g_free);
    }
    if (fd >= 0) {
        g_close(fd, NULL);
    }
    g_string_free(text, TRUE);
    return path;
}

bool disk_image_copy(const struct btrail_trace *trace, char *const *disks,
                struct elf_files *files)
{
    g_autofree char *folder = elf_files_images();
    g_autoptr(GHashTable) missing = find_missing(trace, files);
    unsigned found = 0, all = g_hash_table_size(missing);
    g_autofree char *script = NULL;
    GHashTableIter iter;
    gpointer id;
    bool ok;

    if (!all) {
        return true;
    }
    script = write_script(missing, folder);
    ok = script && run_guestfish(disks, script);
    if (script) {
        g_unlink(script);
    }
    g_hash_table_iter_init(&iter, missing);
    while (g_hash_table_iter_next(&iter, &id, NULL)) {
        g_autofree char *place = place_of(folder, id);

        found += keep_if(place, id);
    }
    if (ok && found < all) {
        cli_error("--image: %u of the %u files of the trace that were missing "
                  "are not on the disk, or are others there", all - found,
                  all);
    }
    return ok;
}

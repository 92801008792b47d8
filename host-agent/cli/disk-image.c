/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files of a guest out of its disk: see disk-image.h
 *
 * The guest chooses what its paths and disks have.  libguestfs reads the disk
 * in a virtual machine of its own; on the host a file is named by the digits of
 * its build-id.
 */

#include <errno.h>
#include <glib/gstdio.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backtrail/guest-names.h"
#include "cli/cli.h"
#include "cli/disk-image.h"
#include "cli/missing-files.h"

static const char *const formats[] = { "raw", "qcow2", "vmdk", "vdi", "vhdx" };

/* Of what guestfish says, and how often what it has written is looked at */
#define SAID_MAX    (64u << 10)
#define LOOK_MS     50

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

/*
 * Has one of the files become larger than a program's can be?  The guest can
 * have a hole of any size in it.
 */
static bool has_huge(GHashTable *missing, const char *folder)
{
    GHashTableIter iter;
    gpointer id;

    g_hash_table_iter_init(&iter, missing);
    while (g_hash_table_iter_next(&iter, &id, NULL)) {
        g_autofree char *place = missing_file_place(folder, id);
        GStatBuf st;

        if (place && !g_stat(place, &st) &&
            st.st_size > BTRAIL_GUEST_FILE_MAX) {
            return true;
        }
    }
    return false;
}

/*
 * Waits for guestfish.  Returns what it has said, or NULL if it was ended, as a
 * file is too large.
 */
static char *watch(GPid pid, int fd, GHashTable *missing, const char *folder,
                   int *status)
{
    GString *said = g_string_new(NULL);
    struct pollfd in = { .fd = fd, .events = POLLIN };
    bool huge = false;
    char text[4096];
    ssize_t n = 1;

    while (n && !huge) {
        if (poll(&in, 1, LOOK_MS) > 0) {
            n = read(fd, text, sizeof(text));
            g_string_append_len(said, text, said->len < SAID_MAX ?
                                MAX(n, 0) : 0);
        }
        huge = has_huge(missing, folder);
    }
    if (huge) {
        kill(pid, SIGTERM);
    }
    while (waitpid(pid, status, 0) < 0 && errno == EINTR) {
        continue;
    }
    g_close(fd, NULL);
    g_spawn_close_pid(pid);
    return g_string_free(said, huge);
}

/* Has guestfish execute a script.  False after an error message. */
static bool run_guestfish(char *const *disks, const char *script,
                          GHashTable *missing, const char *folder)
{
    g_autofree char *program = g_find_program_in_path("guestfish");
    g_autoptr(GPtrArray) argv = g_ptr_array_new_with_free_func(g_free);
    g_autofree char *err = NULL;
    g_autoptr(GError) error = NULL;
    int status, fd;
    GPid pid;

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
    if (!g_spawn_async_with_pipes(NULL, (char **)argv->pdata, NULL,
                                  G_SPAWN_DO_NOT_REAP_CHILD |
                                  G_SPAWN_STDOUT_TO_DEV_NULL, NULL, NULL, &pid,
                                  NULL, NULL, &fd, &error)) {
        cli_error("--image: guestfish: %s", error->message);
        return false;
    }
    err = watch(pid, fd, missing, folder, &status);
    if (!err) {
        cli_error("--image: a file of the trace is larger than %u MiB on the "
                  "disk; it was not copied, nor were those after it",
                  BTRAIL_GUEST_FILE_MAX >> 20);
        return false;
    }
    if (!g_spawn_check_wait_status(status, &error)) {
        g_strchomp(err);
        cli_error("--image: guestfish: %s%s%s", error->message,
                  *err ? ": " : "", err);
        return false;
    }
    return true;
}

/* A script that downloads each file to its place; NULL after an error */
static char *write_script(GHashTable *missing, const char *folder)
{
    GString *text = g_string_new(NULL);
    char *path = g_build_filename(folder, "script-XXXXXX", NULL);
    GHashTableIter iter;
    gpointer id, file;
    bool ok = true;
    int fd;

    g_hash_table_iter_init(&iter, missing);
    while (g_hash_table_iter_next(&iter, &id, &file)) {
        g_autofree char *place = missing_file_place(folder, id);
        const char *guest = ((struct missing_file *)file)->path;

        if (!is_plain(guest)) {
            continue;
        }
        ok &= place && is_plain(place);
        /* "-": continue if the file is not there. */
        g_string_append_printf(text, "-download \"%s\" \"%s\"\n", guest,
                               place);
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
    g_autoptr(GHashTable) missing = missing_files_new(trace, files);
    unsigned found = 0, all = g_hash_table_size(missing);
    g_autofree char *script = NULL;
    GHashTableIter iter;
    gpointer id;
    bool ok;

    if (!all) {
        return true;
    }
    script = write_script(missing, folder);
    ok = script && run_guestfish(disks, script, missing, folder);
    if (script) {
        g_unlink(script);
    }
    g_hash_table_iter_init(&iter, missing);
    while (g_hash_table_iter_next(&iter, &id, NULL)) {
        g_autofree char *place = missing_file_place(folder, id);

        found += place && missing_file_keep(place, id);
    }
    if (ok) {
        missing_files_report("--image", "on the disk", found, all);
    }
    return ok;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: the manifest of a recording, and its fingerprints
 *
 * What is taken names nothing outside of the recording.
 */

#include <string.h>

#include "fuzz.h"
#include "replay/fingerprint.h"
#include "replay/replay-arguments.h"

static void check_file(const struct recorded_file *f)
{
    g_auto(GStrv) parts = g_strsplit(f->name, "/", -1);

    fuzz_require(parts[1] && (!strcmp(parts[0], "files") ||
                              (!strcmp(parts[0], "ring") && !parts[2])));
    for (char **p = parts; *p; p++) {
        fuzz_require(**p && strcmp(*p, ".") && strcmp(*p, ".."));
    }
    fuzz_require(strlen(f->sha256) == 64);
    fuzz_require(!f->overlay || g_str_has_prefix(f->overlay, "ring/"));
}

/* A path of a value is that of a file of the recording. */
static void check_value(const char *value)
{
    for (const char *slash = strchr(value, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        const char *begin = slash;
        g_autofree char *path = NULL;

        while (begin > value && !strchr(",=", begin[-1])) {
            begin--;
        }
        path = g_strndup(begin, strcspn(begin, ","));
        fuzz_require(g_str_has_prefix(path, "recording/files/"));
        fuzz_require(!strstr(path, ".."));
    }
}

/* The text of the guest is free; a value may be spelled like an option. */
static void check_arguments(char *const *a)
{
    static const char *const alone[] = {
        "-no-reboot", "-nodefaults", "-no-user-config", NULL
    };
    static const char *const text[] = { "-append", "-name", NULL };

    for (; *a; a++) {
        const char *option = *a;

        fuzz_require(*option == '-');
        if (g_strv_contains(alone, option)) {
            continue;
        }
        a++;
        fuzz_require(*a);
        if (!g_strv_contains(text, option)) {
            check_value(*a);
        }
    }
}

int fuzz_input(const uint8_t *data, size_t size)
{
    g_autofree char *text = g_strndup((const char *)data, size);
    g_autoptr(GError) error = NULL;
    g_autoptr(GError) other = NULL;
    struct recording *r = recording_parse("/recording", text, &error);
    g_autoptr(GArray) prints = fingerprint_parse(text, &other);

    fuzz_require(!r == !!error);
    fuzz_require(!prints == !!other);
    if (!r) {
        return 0;
    }
    fuzz_accepted();
    for (unsigned i = 0; i < r->files->len; i++) {
        check_file(g_ptr_array_index(r->files, i));
    }
    if (replay_arguments_check(r->arguments, NULL)) {
        check_arguments(r->arguments);
    }
    recording_free(r);
    return 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the fuzz targets have in common: see fuzz.h
 */

#include <glib.h>
#include <stdlib.h>

#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t accepted;
static bool is_accepted;

void fuzz_require(bool condition)
{
    if (!condition) {
        abort();
    }
}

void fuzz_accepted(void)
{
    is_accepted = true;
}

static void tell_accepted(void)
{
    g_printerr("stat::accepted_units: %" G_GUINT64_FORMAT "\n", accepted);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    /* GLib only grumbles when it is used in a wrong way. */
    g_log_set_always_fatal(G_LOG_LEVEL_CRITICAL | G_LOG_LEVEL_WARNING);
    return atexit(tell_accepted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int ret;

    is_accepted = false;
    ret = fuzz_input(data, size);
    accepted += is_accepted;
    return ret;
}

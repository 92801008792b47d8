/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: QEMU's log of a recording, for its turns and for what came to
 * the guest
 */

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "replay/replay-log.h"
#include "replay/turns.h"

#define PLACE 1000

static void check_turns(const struct turns *t)
{
    uint64_t last;
    unsigned vcpu = turns_vcpu(t, PLACE);
    uint64_t next = turns_next(t, vcpu, PLACE);

    if (turns_last(t, vcpu, PLACE, &last)) {
        fuzz_require(last < PLACE && turns_vcpu(t, last) == vcpu);
    }
    if (next != UINT64_MAX) {
        fuzz_require(next >= PLACE && turns_vcpu(t, next) == vcpu);
    }
}

static void check_place(const struct replay_log_place *place)
{
    for (unsigned i = 0; i < REPLAY_LOG_KINDS; i++) {
        const struct replay_log_event *e = &place->before[i];

        fuzz_require(!e->there || (e->kind == i && e->icount <= PLACE));
    }
    if (place->next.there) {
        g_autofree char *text = replay_log_describe(&place->next);

        fuzz_require(place->next.icount >= PLACE && *text);
    }
}

static void check_from(const char *path, const struct log_start *start)
{
    g_autoptr(GError) error = NULL, other = NULL;
    struct replay_log_place place = { 0 };
    struct turns *turns = turns_load(path, start, &error);

    fuzz_require(!turns == !!error);
    if (turns) {
        fuzz_accepted();
        check_turns(turns);
        turns_free(turns);
    }
    if (replay_log_find(path, start, PLACE, &place, &other)) {
        fuzz_require(!other);
        check_place(&place);
    } else {
        fuzz_require(other);
    }
}

int fuzz_input(const uint8_t *data, size_t size)
{
    int fd = memfd_create("log", MFD_CLOEXEC);
    g_autofree char *path = g_strdup_printf("/proc/self/fd/%d", fd);
    const struct log_start starts[] = { { 0 }, { size / 2, PLACE / 2, 1 } };

    fuzz_require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    for (unsigned i = 0; i < G_N_ELEMENTS(starts); i++) {
        check_from(path, &starts[i]);
    }
    close(fd);
    return 0;
}

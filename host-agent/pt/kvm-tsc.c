/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What KVM makes of the host's TSC for a guest: see kvm-tsc.h
 */

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "pt/kvm-tsc.h"
#include "util/agent-error.h"
#include "util/close.h"
#include "util/parse.h"
#include "util/whole-io.h"

#define KVM     "/sys/kernel/debug/kvm"
/* Longer than what is looked for in /proc/PID/status */
#define MOST    (4u << 10)

__extension__ typedef unsigned __int128 wide;

/* The begin of a file; NULL, and errno, if it cannot be read */
static char *text_of(const char *folder, const char *name)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    g_autofree char *text = g_malloc(MOST + 1);
    ssize_t n = fd < 0 ? -1 : whole_read(fd, text, MOST);
    int reason = errno;

    btrail_close(fd);
    errno = reason;
    if (n < 0) {
        return NULL;
    }
    text[n] = 0;
    return g_strchomp(g_steal_pointer(&text));
}

static bool number(const char *folder, const char *name, uint64_t *value)
{
    g_autofree char *text = text_of(folder, name);
    bool minus = text && *text == '-';

    if (!text || !g_ascii_isdigit(text[minus]) ||
        !parse_text_number(text + minus, NULL, value)) {
        return false;
    }
    *value = minus ? -*value : *value;
    return true;
}

/* Of which process a thread is; 0 if there is none */
static uint64_t process_of(const char *root, pid_t thread)
{
    g_autofree char *folder = g_strdup_printf("%s/proc/%ld", root,
                                              (long)thread);
    g_autofree char *text = text_of(folder, "status");
    const char *at = text ? strstr(text, "\nTgid:\t") : NULL;
    const char *end;
    uint64_t process;

    return at && parse_text_number(at + strlen("\nTgid:\t"), &end, &process) &&
           (*end == '\n' || !*end) ? process : 0;
}

static bool read_vcpu(const char *folder, struct kvm_tsc *tsc)
{
    uint64_t fraction = 0;

    *tsc = (struct kvm_tsc){ .ratio = 1 };
    if (!number(folder, "tsc-offset", &tsc->offset)) {
        return false;
    }
    /* A CPU that cannot scale has neither. */
    if (number(folder, "tsc-scaling-ratio", &tsc->ratio) !=
        number(folder, "tsc-scaling-ratio-frac-bits", &fraction)) {
        return false;
    }
    tsc->fraction = (unsigned)fraction;
    return fraction < 64 && tsc->ratio;
}

/* What is known of the vCPUs of a process */
struct kvm_tsc_search {
    pid_t thread;
    unsigned vcpus;
    struct kvm_tsc tsc;         /* of the first; or that of the thread */
    bool found;                 /* the latter */
    bool differ;
    bool bad;
};

static void look_at(struct kvm_tsc_search *s, const char *folder)
{
    struct kvm_tsc tsc;
    uint64_t thread;

    if (s->found) {
        return;
    }
    if (!read_vcpu(folder, &tsc)) {
        s->bad = true;
        return;
    }
    if (number(folder, "pid", &thread) && thread == (uint64_t)s->thread) {
        s->found = true;
        s->tsc = tsc;
    } else if (s->vcpus) {
        s->differ |= !kvm_tsc_equal(&s->tsc, &tsc);
    } else {
        s->tsc = tsc;
    }
    s->vcpus++;
}

/* All of a folder that begin with @prefix; false if it cannot be read */
static bool each(struct kvm_tsc_search *s, const char *folder,
                 const char *prefix,
                 void (*fn)(struct kvm_tsc_search *s, const char *path),
                 GError **error)
{
    g_autoptr(GDir) dir = g_dir_open(folder, 0, error);
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        if (g_str_has_prefix(name, prefix)) {
            g_autofree char *path = g_build_filename(folder, name, NULL);

            fn(s, path);
        }
    }
    return dir;
}

static void look_in(struct kvm_tsc_search *s, const char *folder)
{
    if (!each(s, folder, "vcpu", look_at, NULL)) {
        s->bad = true;
    }
}

bool kvm_tsc_read(const char *root, pid_t thread, struct kvm_tsc *tsc,
                  GError **error)
{
    g_autofree char *folder = g_strconcat(root, KVM, NULL);
    uint64_t process = process_of(root, thread);
    g_autofree char *prefix = g_strdup_printf("%" G_GUINT64_FORMAT "-",
                                              process);
    struct kvm_tsc_search s = { .thread = thread };
    g_autoptr(GError) why = NULL;

    if (!process) {
        return agent_fail(error, AGENT_ERROR_SYSTEM, "there is no thread %ld "
                          "(any more)", (long)thread);
    }
    if (!each(&s, folder, prefix, look_in, &why)) {
        return agent_fail(error, AGENT_ERROR_SYSTEM, "the offset of the "
                          "guest's TSC is not known, as KVM says it to root "
                          "only, where debugfs is mounted: %s", why->message);
    }
    if (s.found || (s.vcpus && !s.differ && !s.bad)) {
        *tsc = s.tsc;
        return true;
    }
    return agent_fail(error, AGENT_ERROR_SYSTEM, s.bad ? "%s does not say the "
                      "offset of the guest's TSC as it is known to" : s.differ ?
                      "the TSCs of the guest's vCPUs differ, and %s does not "
                      "say whose each is" : "%s has no guest of this process",
                      folder);
}

bool kvm_tsc_equal(const struct kvm_tsc *a, const struct kvm_tsc *b)
{
    return a->offset == b->offset && a->ratio == b->ratio &&
           a->fraction == b->fraction;
}

uint64_t kvm_tsc_at(const struct kvm_tsc *tsc, uint64_t host)
{
    return (uint64_t)((wide)host * tsc->ratio >> tsc->fraction) + tsc->offset;
}

uint64_t kvm_tsc_hz(const struct kvm_tsc *tsc, uint64_t host)
{
    wide hz = (wide)host * tsc->ratio >> tsc->fraction;

    return hz > UINT64_MAX ? 0 : (uint64_t)hz;
}

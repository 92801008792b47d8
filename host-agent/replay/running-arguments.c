/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The arguments of a QEMU that runs: see running-arguments.h
 */

#include <string.h>
#include <unistd.h>

#include "replay/machine.h"
#include "replay/option-list.h"
#include "replay/running-arguments.h"
#include "util/agent-error.h"

/*
 * The first has a state, and keeps it; all others of QEMU's networks have none,
 * and a NIC may use what a tap device offers.
 */
#define CUT_OFF     "user,restrict=on"
#define NO_NETWORK  "null"

struct arguments_writer {
    GPtrArray *out;
    char *const *arguments;     /* all that there are */
    const char *folder;
    bool defaults;              /* no -nodefaults: QEMU adds devices */
    bool network;
    bool serial;
};

/* The value of an option for the copy, to be freed; NULL leaves it out. */
typedef char *changer(struct arguments_writer *w, const char *value,
                      GError **error);

static char *leave_out(struct arguments_writer *w, const char *value,
                       GError **error)
{
    return NULL;
}

static char *absolute(struct arguments_writer *w, const char *value,
                      GError **error)
{
    return g_canonicalize_filename(value, w->folder);
}

static char *change_bios(struct arguments_writer *w, const char *value,
                         GError **error)
{
    g_autofree char *path = absolute(w, value, error);

    /* A name without a path is one of QEMU's own firmware. */
    return access(path, F_OK) ? g_strdup(value) : g_steal_pointer(&path);
}

static char *change_drive(struct arguments_writer *w, const char *value,
                          GError **error)
{
    g_autoptr(GPtrArray) list = option_list_parse(value, NULL);
    const char *file = option_list_get(list, "file");
    const char *snapshot = option_list_get(list, "snapshot");

    if (snapshot && strcmp(snapshot, "off")) {
        agent_fail(error, AGENT_ERROR_COMMAND, "-drive %s: what "
                   "this guest has written is in a file without a name, "
                   "which cannot be copied; record it from power-on",
                   value);
        return NULL;
    }
    if (file && *file) {
        g_autofree char *path = absolute(w, file, error);

        option_list_set(list, "file", path);
    }
    return option_list_format(list, NULL);
}

static const char *cut_off(const GPtrArray *list)
{
    return g_strcmp0(option_list_get(list, "type"), "user") ? NO_NETWORK :
           CUT_OFF;
}

static char *change_netdev(struct arguments_writer *w, const char *value,
                           GError **error)
{
    g_autoptr(GPtrArray) list = option_list_parse(value, "type");
    const char *id = option_list_get(list, "id");

    return g_strdup_printf("%s,id=%s", cut_off(list), id ? id : "");
}

/* Copies what an option has of these. */
static void copy_keys(GPtrArray *to, const GPtrArray *from,
                      const char *const *keys)
{
    for (; *keys; keys++) {
        const char *value = option_list_get(from, *keys);

        if (value) {
            option_list_set(to, *keys, value);
        }
    }
}

static char *change_nic(struct arguments_writer *w, const char *value,
                        GError **error)
{
    static const char *const keys[] = { "model", "mac", NULL };
    g_autoptr(GPtrArray) list = option_list_parse(value, "type");
    g_autoptr(GPtrArray) cut = option_list_parse(cut_off(list), "type");

    w->network = true;
    if (!strcmp(value, "none")) {
        return g_strdup(value);
    }
    copy_keys(cut, list, keys);
    return option_list_format(cut, "type");
}

static char *change_net(struct arguments_writer *w, const char *value,
                        GError **error)
{
    w->network = true;
    return g_strdup(value);
}

/* Does a device use it?  Ports and the monitor no longer do. */
static bool is_used(const struct arguments_writer *w, const char *id)
{
    for (char *const *a = w->arguments; a[0] && a[1]; a++) {
        g_autoptr(GPtrArray) list = option_list_parse(a[1], "driver");

        if (!strcmp(a[0], "-device") &&
            !g_strcmp0(option_list_get(list, "chardev"), id)) {
            return true;
        }
    }
    return false;
}

static char *change_chardev(struct arguments_writer *w, const char *value,
                            GError **error)
{
    g_autoptr(GPtrArray) list = option_list_parse(value, "backend");
    const char *id = option_list_get(list, "id");

    return id && is_used(w, id) ? g_strdup_printf("null,id=%s", id) : NULL;
}

static char *change_port(struct arguments_writer *w, const char *value,
                         GError **error)
{
    return g_strdup(strcmp(value, "none") ? "null" : value);
}

static char *change_serial(struct arguments_writer *w, const char *value,
                           GError **error)
{
    if (w->serial || !strcmp(value, "none")) {
        return change_port(w, value, error);
    }
    w->serial = true;
    return g_strdup("stdio");
}

/* RAM in a file is shared with the guest that continues. */
static char *change_object(struct arguments_writer *w, const char *value,
                           GError **error)
{
    static const char *const keys[] = { "id", "size", "share", NULL };
    g_autoptr(GPtrArray) list = option_list_parse(value, "qom-type");
    g_autoptr(GPtrArray) memory = option_list_parse("memory-backend-memfd",
                                                    "qom-type");

    if (g_strcmp0(option_list_get(list, "qom-type"), "memory-backend-file")) {
        return g_strdup(value);
    }
    copy_keys(memory, list, keys);
    return option_list_format(memory, "qom-type");
}

/* The base has its state, but a capture belongs to the guest that continues. */
static char *change_device(struct arguments_writer *w, const char *value,
                           GError **error)
{
    g_autoptr(GPtrArray) list = option_list_parse(value, "driver");
    const char *type = option_list_get(list, "driver");

    return g_strdup(g_strcmp0(type, "branch-trace") ? value : type);
}

static const struct {
    const char *name;
    changer *change;            /* NULL: it has no value, and is left out */
} changed[] = {
    { "-S", NULL },
    { "-s", NULL },
    { "-daemonize", NULL },
    { "-no-shutdown", NULL },
    { "-accel", leave_out },
    { "-incoming", leave_out },
    { "-loadvm", leave_out },
    { "-qmp", leave_out },
    { "-qmp-pretty", leave_out },
    { "-mon", leave_out },
    { "-monitor", leave_out },
    { "-display", leave_out },
    { "-vnc", leave_out },
    { "-gdb", leave_out },
    { "-pidfile", leave_out },
    { "-msg", leave_out },
    { "-sandbox", leave_out },
    { "-trace", leave_out },
    { "-D", leave_out },
    { "-d", leave_out },
    { "-kernel", absolute },
    { "-initrd", absolute },
    { "-dtb", absolute },
    { "-bios", change_bios },
    { "-L", absolute },
    { "-hda", absolute },
    { "-hdb", absolute },
    { "-hdc", absolute },
    { "-hdd", absolute },
    { "-cdrom", absolute },
    { "-pflash", absolute },
    { "-drive", change_drive },
    { "-netdev", change_netdev },
    { "-nic", change_nic },
    { "-net", change_net },
    { "-chardev", change_chardev },
    { "-serial", change_serial },
    { "-parallel", change_port },
    { "-debugcon", change_port },
    { "-object", change_object },
    { "-device", change_device },
};

static void put(struct arguments_writer *w, const char *word)
{
    g_ptr_array_add(w->out, g_strdup(word));
}

/* What is not changed, with its value if it has one */
static void keep(struct arguments_writer *w, char *const **at)
{
    const char *name = *(*at)++;

    w->defaults &= strcmp(name, "-nodefaults") != 0;
    if (*name != '-') {
        g_autofree char *path = g_canonicalize_filename(name, w->folder);

        put(w, path);
        return;
    }
    put(w, name);
    if (machine_option_has_value(name) && **at) {
        put(w, *(*at)++);
    }
}

static bool change(struct arguments_writer *w, char *const **at, GError **error)
{
    const char *given = **at;
    /* QEMU takes "--name", too. */
    const char *name = g_str_has_prefix(given, "--") ? given + 1 : given;
    g_autofree char *value = NULL;
    g_autoptr(GError) local = NULL;
    unsigned i = 0;

    if (!strcmp(name, "-snapshot")) {
        return agent_fail(error, AGENT_ERROR_COMMAND,
                          "-snapshot: what this guest has written is in "
                          "files without names, which cannot be copied; "
                          "record it from power-on");
    }
    while (i < G_N_ELEMENTS(changed) && strcmp(name, changed[i].name)) {
        i++;
    }
    if (i == G_N_ELEMENTS(changed)) {
        keep(w, at);
        return true;
    }
    (*at)++;
    if (!changed[i].change || !**at) {
        return true;
    }
    value = changed[i].change(w, *(*at)++, &local);
    if (local) {
        g_propagate_error(error, g_steal_pointer(&local));
        return false;
    }
    if (value) {
        put(w, name);
        put(w, value);
    }
    return true;
}

char **running_arguments_new(char *const *arguments, const char *folder,
                             GError **error)
{
    struct arguments_writer w = {
        .out = g_ptr_array_new_with_free_func(g_free),
        .arguments = arguments,
        .folder = folder,
        .defaults = true,
    };
    bool ok = true;

    while (ok && *arguments) {
        ok = change(&w, &arguments, error);
    }
    if (!ok) {
        g_ptr_array_unref(w.out);
        return NULL;
    }
    if (w.defaults && !w.network) {
        put(&w, "-nic");
        put(&w, CUT_OFF);
    }
    g_ptr_array_add(w.out, NULL);
    return (char **)g_ptr_array_free(w.out, FALSE);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The machine of a recording: see machine.h
 */

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "replay/devices.h"
#include "replay/image.h"
#include "replay/machine.h"
#include "replay/option-list.h"
#include "replay/vcpu-count.h"
#include "util/parse.h"

#define refuse(error, ...) \
    agent_fail(error, AGENT_ERROR_COMMAND, __VA_ARGS__)

struct builder {
    struct machine *m;
    bool defaults;              /* no -nodefaults: QEMU adds devices */
    bool graphic;               /* no -nographic */
    bool serial, parallel, network, monitor, clock, vga;
    bool own_ram;               /* the user has a memory backend */
    char *machine;              /* the value of -machine */
    char *ram;                  /* its size in bytes, as text */
    unsigned networks;
};

static void free_file(void *opaque)
{
    struct machine_file *f = opaque;

    g_free(f->source);
    g_free(f->name);
    g_free(f);
}

void machine_free(struct machine *m)
{
    if (m) {
        g_ptr_array_unref(m->record);
        g_ptr_array_unref(m->replay);
        g_ptr_array_unref(m->firmware);
        g_ptr_array_unref(m->files);
        g_free(m);
    }
}

static void put(GPtrArray *list, const char *option, const char *value)
{
    g_ptr_array_add(list, g_strdup(option));
    if (value) {
        g_ptr_array_add(list, g_strdup(value));
    }
}

static void put_both(struct builder *b, const char *option, const char *value)
{
    put(b->m->record, option, value);
    put(b->m->replay, option, value);
}

/* Adds a file to copy; its path in the arguments, to be freed */
static char *add_file(struct builder *b, const char *path, GError **error)
{
    g_autofree char *base = g_path_get_basename(path);
    struct machine_file *f;

    if (access(path, R_OK)) {
        agent_error_errno(error, path);
        return NULL;
    }
    /* What a path of QEMU must not have anywhere */
    g_strcanon(base, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS ".-", '_');
    f = g_new0(struct machine_file, 1);
    f->source = g_strdup(path);
    f->name = g_strdup_printf(RECORDING_FILES "/%u-%s",
                              b->m->files->len, base);
    g_ptr_array_add(b->m->files, f);
    return g_strconcat("recording/", f->name, NULL);
}

/*
 * Handlers of options: @value is NULL if the option has none
 */

typedef bool handler(struct builder *b, const char *option, const char *value,
                     GError **error);

static bool keep(struct builder *b, const char *option, const char *value,
                 GError **error)
{
    if (value && strchr(value, '/')) {
        return refuse(error, "%s %s: it names a file of this host, which the "
                      "recording would lack; leave it out", option, value);
    }
    put_both(b, option, value);
    return true;
}

/* Text for the guest, in which a / is no path */
static bool keep_text(struct builder *b, const char *option, const char *value,
                      GError **error)
{
    put_both(b, option, value);
    return true;
}

static bool ignore(struct builder *b, const char *option, const char *value,
                   GError **error)
{
    return true;
}

static bool handle_nodefaults(struct builder *b, const char *option,
                              const char *value, GError **error)
{
    b->defaults = false;
    put_both(b, option, NULL);
    return true;
}

static bool handle_nographic(struct builder *b, const char *option,
                             const char *value, GError **error)
{
    b->graphic = false;
    return true;
}

/* QEMU runs in another folder than we do. */
static char *absolute(const char *value)
{
    static const char *const prefixes[] = { "file:", "unix:", "pipe:" };

    for (unsigned i = 0; i < G_N_ELEMENTS(prefixes); i++) {
        if (g_str_has_prefix(value, prefixes[i])) {
            g_autofree char *path = g_canonicalize_filename(
                value + strlen(prefixes[i]), NULL);

            return g_strconcat(prefixes[i], path, NULL);
        }
    }
    return g_strdup(value);
}

/* What the user has of the machine while it is recorded */
static bool only_record(struct builder *b, const char *option,
                        const char *value, GError **error)
{
    g_autofree char *path = value ? absolute(value) : NULL;

    b->monitor |= !strcmp(option, "-monitor");
    put(b->m->record, option, path);
    return true;
}

static bool handle_file(struct builder *b, const char *option,
                        const char *value, GError **error)
{
    g_autofree char *path = NULL;

    /* A name without a path is one of QEMU's own firmware. */
    if (!strcmp(option, "-bios") && access(value, F_OK)) {
        return keep(b, option, value, error);
    }
    path = add_file(b, value, error);
    if (!path) {
        return false;
    }
    put_both(b, option, path);
    return true;
}

static bool handle_firmware(struct builder *b, const char *option,
                            const char *value, GError **error)
{
    g_ptr_array_add(b->m->firmware, g_canonicalize_filename(value, NULL));
    return true;
}

static bool handle_accel(struct builder *b, const char *option,
                         const char *value, GError **error)
{
    g_autoptr(GPtrArray) list = option_list_parse(value, "accel");
    const char *accel = option_list_get(list, "accel");

    return !g_strcmp0(accel, "tcg") ||
           refuse(error, "%s %s: what a guest does under %s cannot be "
                  "replayed; leave it out, for TCG", option, value,
                  accel ? accel : value);
}

static bool handle_kvm(struct builder *b, const char *option,
                       const char *value, GError **error)
{
    return refuse(error, "%s: what a guest does under KVM cannot be replayed; "
                  "leave it out, for TCG", option);
}

static bool handle_machine(struct builder *b, const char *option,
                           const char *value, GError **error)
{
    g_autoptr(GPtrArray) list = option_list_parse(value, "type");
    g_autofree char *accel = option_list_take(list, "accel");

    if (accel && strcmp(accel, "tcg") && strcmp(accel, "kvm:tcg")) {
        return handle_accel(b, "-machine accel", accel, error);
    }
    if (option_list_get(list, "memory-backend")) {
        b->own_ram = true;
    }
    if (strchr(value, '/')) {
        return keep(b, option, value, error);
    }
    g_free(b->machine);
    b->machine = option_list_format(list, "type");
    return true;
}

static bool handle_smp(struct builder *b, const char *option,
                       const char *value, GError **error)
{
    return vcpu_count_parse(value) ? keep(b, option, value, error) :
           refuse(error, "%s %s: from 1 to %u vCPUs can be recorded, and none "
                  "is plugged in later; use -smp 2", option, value,
                  VCPU_COUNT_MAX);
}

static bool handle_memory(struct builder *b, const char *option,
                          const char *value, GError **error)
{
    g_autoptr(GPtrArray) list = option_list_parse(value, "size");
    const char *size = option_list_get(list, "size");
    const char *end;
    uint64_t n;

    if (size && parse_text_number(size, &end, &n) && !*end) {
        n <<= 20;
    } else if (!size || !parse_text_size(size, NULL, &n)) {
        return refuse(error, "%s %s: not a size such as 512M or 4G", option,
                      value);
    }
    if (list->len > 1) {
        return refuse(error, "%s %s: RAM that is plugged in later cannot be "
                      "replayed; use -m %s", option, value, size);
    }
    g_free(b->ram);
    b->ram = g_strdup_printf("%" G_GUINT64_FORMAT, n);
    return keep(b, option, value, error);
}

static bool handle_cpu(struct builder *b, const char *option,
                       const char *value, GError **error)
{
    return strncmp(value, "host", 4) ? keep(b, option, value, error) :
           refuse(error, "-cpu %s: it depends on this host; use -cpu max",
                  value);
}

static bool handle_rtc(struct builder *b, const char *option,
                       const char *value, GError **error)
{
    g_autoptr(GPtrArray) list = option_list_parse(value, NULL);

    if (!g_strcmp0(option_list_get(list, "base"), "localtime")) {
        return refuse(error, "%s %s: it cannot be replayed; use base=utc",
                      option, value);
    }
    b->clock = true;
    return keep(b, option, value, error);
}

/*
 * Disks: blkreplay, which the log knows, over the image with an overlay that
 * QEMU throws away
 */

static const char *const drive_keys[] = {
    "file", "format", "if", "id", "media", "index", "bus", "unit", "snapshot",
    "cache", "aio", "discard", "detect-zeroes", "readonly", "read-only", NULL
};

static bool check_drive(const GPtrArray *list, const char *value,
                        GError **error)
{
    const char *unknown = option_list_unknown(list, drive_keys);
    const char *interface = option_list_get(list, "if");
    static const char *const known[] = { "none", "ide", "virtio", "pflash",
                                         NULL };

    if (unknown) {
        return refuse(error, "-drive %s: a recording knows no %s; leave it "
                      "out", value, unknown);
    }
    if (interface && !g_strv_contains(known, interface)) {
        return refuse(error, "-drive %s: if=%s cannot be replayed; use "
                      "if=ide", value, interface);
    }
    return true;
}

/* The image itself, as a drive of no device */
static char *add_image(struct builder *b, const char *path, const char *format,
                       GError **error)
{
    g_autofree char *inside = NULL;

    format = image_format(path, format, error);
    inside = format ? add_file(b, path, error) : NULL;
    if (!inside) {
        return NULL;
    }
    return g_strdup_printf("file=%s,format=%s", inside, format);
}

/* Flash is accessed by the vCPU itself, and so is not in the log. */
static bool add_flash(struct builder *b, const GPtrArray *list,
                      const char *image)
{
    const char *unit = option_list_get(list, "unit");
    const char *index = option_list_get(list, "index");
    const char *readonly = option_list_get(list, "readonly");
    g_autofree char *text = NULL;

    if (!readonly) {
        readonly = option_list_get(list, "read-only");
    }
    if (!unit) {
        unit = index;
    }
    text = g_strconcat(image, ",if=pflash", unit ? ",unit=" : "",
                       unit ? unit : "", !g_strcmp0(readonly, "on") ?
                       ",readonly=on" : ",snapshot=on", NULL);
    put_both(b, "-drive", text);
    return true;
}

static bool add_drive(struct builder *b, GPtrArray *list, const char *value,
                      GError **error)
{
    static const char *const host_keys[] = {
        "snapshot", "cache", "aio", "discard", "detect-zeroes"
    };
    g_autofree char *path = NULL, *format = NULL, *image = NULL, *text = NULL;
    g_autofree char *node = NULL, *back = NULL;

    if (!check_drive(list, value, error)) {
        return false;
    }
    path = option_list_take(list, "file");
    format = option_list_take(list, "format");
    for (unsigned i = 0; i < G_N_ELEMENTS(host_keys); i++) {
        g_free(option_list_take(list, host_keys[i]));
    }
    if (!path || !*path) {
        /* A drive without a medium */
        text = option_list_format(list, NULL);
        return keep(b, "-drive", text, error);
    }
    image = add_image(b, path, format, error);
    if (!image) {
        return false;
    }
    if (!g_strcmp0(option_list_get(list, "if"), "pflash")) {
        return add_flash(b, list, image);
    }
    node = g_strdup_printf("rr-image%u", b->m->files->len - 1);
    back = g_strdup_printf("%s,if=none,id=%s,snapshot=on", image, node);
    put_both(b, "-drive", back);
    option_list_set(list, "driver", "blkreplay");
    option_list_set(list, "image", node);
    text = option_list_format(list, NULL);
    return keep(b, "-drive", text, error);
}

static bool handle_drive(struct builder *b, const char *option,
                         const char *value, GError **error)
{
    g_autoptr(GPtrArray) list = option_list_parse(value, NULL);

    return add_drive(b, list, value, error);
}

/* -hda, -cdrom and their like are short for -drive. */
static bool handle_disk(struct builder *b, const char *option,
                        const char *value, GError **error)
{
    g_autoptr(GPtrArray) list = option_list_parse("", NULL);
    bool cdrom = !strcmp(option, "-cdrom");

    option_list_set(list, "file", value);
    if (!strcmp(option, "-pflash")) {
        option_list_set(list, "if", "pflash");
    } else {
        char index[] = { cdrom ? '2' : option[3] - 'a' + '0', 0 };

        option_list_set(list, "if", "ide");
        option_list_set(list, "index", index);
        option_list_set(list, "media", cdrom ? "cdrom" : "disk");
    }
    return add_drive(b, list, value, error);
}

/*
 * Networks: what comes in goes through a filter into the log, and a replay has
 * it from there, with a network that is cut off
 */

static bool check_network(const char *option, const char *value,
                          const GPtrArray *list, GError **error)
{
    const char *type = option_list_get(list, "type");
    const char *vhost = option_list_get(list, "vhost");

    if ((type && g_str_has_prefix(type, "vhost-")) ||
        (vhost && strcmp(vhost, "off"))) {
        return refuse(error, "%s %s: the log does not see what vhost does; "
                      "use %s without vhost", option, value,
                      type && !strcmp(type, "tap") ? "tap" : "user");
    }
    return true;
}

/* What a replay has instead of a network; it offers a NIC the same. */
static const char *replayed_network(const GPtrArray *list)
{
    return g_strcmp0(option_list_get(list, "type"), "null") ?
           "user,restrict=on" : "null";
}

static void add_filter(struct builder *b, const char *id)
{
    g_autofree char *filter = g_strdup_printf("filter-replay,id=rr-filter%u,"
                                              "netdev=%s", b->networks++, id);

    put_both(b, "-object", filter);
}

static bool handle_netdev(struct builder *b, const char *option,
                          const char *value, GError **error)
{
    g_autoptr(GPtrArray) list = option_list_parse(value, "type");
    const char *id = option_list_get(list, "id");
    g_autofree char *cut_off = NULL;

    if (!id || !*id || strspn(id, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS
                                  "._-") != strlen(id)) {
        return refuse(error, "%s %s: it has no id", option, value);
    }
    if (!check_network(option, value, list, error)) {
        return false;
    }
    put(b->m->record, option, value);
    cut_off = g_strdup_printf("%s,id=%s", replayed_network(list), id);
    put(b->m->replay, option, cut_off);
    add_filter(b, id);
    return true;
}

/* The keys of -nic that are the device's */
static const char *const nic_keys[] = { "model", "mac", NULL };

static bool handle_nic(struct builder *b, const char *option,
                       const char *value, GError **error)
{
    g_autoptr(GPtrArray) list = option_list_parse(value, "type");
    g_autoptr(GPtrArray) replay = option_list_parse(replayed_network(list),
                                                    "type");
    g_autofree char *id = g_strdup_printf("rr-network%u", b->networks);
    g_autofree char *text = NULL, *cut_off = NULL;
    const char *model = option_list_get(list, "model");

    b->network = true;
    if (!strcmp(value, "none")) {
        put_both(b, option, value);
        return true;
    }
    if (!check_network(option, value, list, error)) {
        return false;
    }
    if (model && devices_refuse(model)) {
        return refuse(error, "%s %s: model %s cannot be replayed; use "
                      "instead: %s", option, value, model,
                      devices_refuse(model));
    }
    option_list_set(list, "id", id);
    option_list_set(replay, "id", id);
    for (const char *const *key = nic_keys; *key; key++) {
        if (option_list_get(list, *key)) {
            option_list_set(replay, *key, option_list_get(list, *key));
        }
    }
    text = option_list_format(list, "type");
    cut_off = option_list_format(replay, "type");
    put(b->m->record, option, text);
    put(b->m->replay, option, cut_off);
    add_filter(b, id);
    return true;
}

static bool handle_net(struct builder *b, const char *option,
                       const char *value, GError **error)
{
    b->network = true;
    if (strcmp(value, "none")) {
        return refuse(error, "-net %s: it has no filter for the log; use "
                      "-nic user,model=e1000 or -netdev and -device", value);
    }
    put_both(b, "-nic", "none");
    return true;
}

/*
 * Serial ports and their like: what the user types is in the log
 */

static bool handle_serial(struct builder *b, const char *option,
                          const char *value, GError **error)
{
    bool same = !strcmp(value, "none") || g_str_has_prefix(value, "chardev:");
    g_autofree char *path = NULL;

    b->serial |= !strcmp(option, "-serial");
    b->parallel |= !strcmp(option, "-parallel");
    /* The monitor of a recording is ours. */
    if (g_str_has_prefix(value, "mon:")) {
        value += strlen("mon:");
        b->monitor = true;
        put(b->m->record, "-monitor", "none");
    }
    path = absolute(value);
    put(b->m->record, option, path);
    put(b->m->replay, option, same ? value : "null");
    return true;
}

static bool handle_chardev(struct builder *b, const char *option,
                           const char *value, GError **error)
{
    g_autoptr(GPtrArray) list = option_list_parse(value, "backend");
    const char *id = option_list_get(list, "id");
    const char *mux = option_list_get(list, "mux");
    const char *path = option_list_get(list, "path");
    g_autofree char *text = NULL, *null = NULL, *full = NULL;

    if (!id) {
        return refuse(error, "%s %s: it has no id", option, value);
    }
    null = g_strdup_printf("null,id=%s%s", id, !g_strcmp0(mux, "on") ?
                           ",mux=on" : "");
    if (path) {
        full = g_canonicalize_filename(path, NULL);
        option_list_set(list, "path", full);
    }
    text = option_list_format(list, "backend");
    put(b->m->record, option, text);
    put(b->m->replay, option, null);
    return true;
}

static bool handle_floppy(struct builder *b, const char *option,
                          const char *value, GError **error)
{
    return refuse(error, "%s %s: floppies cannot be replayed; use -hda or "
                  "-cdrom", option, value);
}

static bool handle_device(struct builder *b, const char *option,
                          const char *value, GError **error)
{
    g_autoptr(GPtrArray) list = option_list_parse(value, "driver");
    const char *type = option_list_get(list, "driver");
    const char *instead = type ? devices_refuse(type) : NULL;

    b->vga |= type && strcasestr(type, "vga");
    if (*value == '{') {
        return refuse(error, "%s %s: write it without JSON", option, value);
    }
    if (instead) {
        return refuse(error, "%s %s: %s cannot be replayed; use instead: %s",
                      option, value, type, instead);
    }
    /* Each machine has such a drive, so devices.h does not list it. */
    if (!g_strcmp0(type, "floppy")) {
        return handle_floppy(b, option, value, error);
    }
    /* Only what comes in by -serial is logged. */
    if (option_list_get(list, "chardev") &&
        g_strcmp0(type, "isa-debugcon")) {
        return refuse(error, "%s %s: what comes in there is not in the log; "
                      "use -serial chardev:%s", option, value,
                      option_list_get(list, "chardev"));
    }
    if (!g_strcmp0(type, "branch-trace") && strcmp(value, type)) {
        return refuse(error, "%s %s: leave it out; the trace is made when the "
                      "recording is replayed", option, value);
    }
    return keep(b, option, value, error);
}

static bool handle_vga(struct builder *b, const char *option,
                       const char *value, GError **error)
{
    g_autofree char *type = g_strdup_printf("%s-vga", value);
    const char *instead = devices_refuse(type);

    b->vga = true;
    return !instead ? keep(b, option, value, error) :
           refuse(error, "%s %s: it cannot be replayed; use instead: %s",
                  option, value, instead);
}

static bool handle_object(struct builder *b, const char *option,
                          const char *value, GError **error)
{
    static const char *const known[] = {
        "memory-backend-ram", "memory-backend-memfd", "rng-builtin", NULL
    };
    g_autoptr(GPtrArray) list = option_list_parse(value, "qom-type");
    const char *type = option_list_get(list, "qom-type");

    if (type && g_str_has_prefix(type, "rng-") &&
        strcmp(type, "rng-builtin")) {
        return refuse(error, "%s %s: what it reads is not in the log; use "
                      "rng-builtin", option, value);
    }
    if (!type || !g_strv_contains(known, type)) {
        return refuse(error, "%s %s: a recording knows only %s, %s and %s; "
                      "leave it out", option, value, known[0], known[1],
                      known[2]);
    }
    return keep(b, option, value, error);
}

static bool handle_start(struct builder *b, const char *option,
                         const char *value, GError **error)
{
    return refuse(error, "%s: a recording begins when the machine is switched "
                  "on; leave it out", option);
}

static bool handle_debugger(struct builder *b, const char *option,
                            const char *value, GError **error)
{
    return refuse(error, "%s: leave it out, and debug the replay: backtrail "
                  "rr replay --gdb", option);
}

static bool handle_blockdev(struct builder *b, const char *option,
                            const char *value, GError **error)
{
    return refuse(error, "%s %s: use -drive file=IMAGE,if=none,id=ID", option,
                  value);
}

static bool handle_sharing(struct builder *b, const char *option,
                           const char *value, GError **error)
{
    return refuse(error, "%s %s: folders of the host are not in the log; use "
                  "a disk image with the files", option, value);
}

static bool handle_usb(struct builder *b, const char *option,
                       const char *value, GError **error)
{
    return refuse(error, "%s: %s cannot be replayed; use instead: %s", option,
                  "piix3-usb-uhci", devices_refuse("piix3-usb-uhci"));
}

static bool handle_log(struct builder *b, const char *option,
                       const char *value, GError **error)
{
    return refuse(error, "%s: backtrail rr sets it; leave it out", option);
}

static const struct {
    const char *name;
    bool value;
    handler *handle;
} options[] = {
    { "-machine", true, handle_machine },
    { "-M", true, handle_machine },
    { "-accel", true, handle_accel },
    { "-enable-kvm", false, handle_kvm },
    { "-cpu", true, handle_cpu },
    { "-smp", true, handle_smp },
    { "-m", true, handle_memory },
    { "-object", true, handle_object },
    { "-device", true, handle_device },
    { "-global", true, keep },
    { "-rtc", true, handle_rtc },
    { "-icount", true, handle_log },
    { "-boot", true, keep },
    { "-vga", true, handle_vga },
    { "-uuid", true, keep },
    { "-action", true, keep },
    { "-name", true, keep_text },
    { "-no-reboot", false, keep },
    { "-nodefaults", false, handle_nodefaults },
    { "-no-user-config", false, ignore },
    { "-smbios", true, keep },
    { "-kernel", true, handle_file },
    { "-initrd", true, handle_file },
    { "-dtb", true, handle_file },
    { "-bios", true, handle_file },
    { "-append", true, keep_text },
    { "-L", true, handle_firmware },
    { "-drive", true, handle_drive },
    { "-hda", true, handle_disk },
    { "-hdb", true, handle_disk },
    { "-hdc", true, handle_disk },
    { "-hdd", true, handle_disk },
    { "-cdrom", true, handle_disk },
    { "-pflash", true, handle_disk },
    { "-fda", true, handle_floppy },
    { "-fdb", true, handle_floppy },
    { "-blockdev", true, handle_blockdev },
    /* Guests write into overlays in any case. */
    { "-snapshot", false, ignore },
    { "-netdev", true, handle_netdev },
    { "-nic", true, handle_nic },
    { "-net", true, handle_net },
    { "-serial", true, handle_serial },
    { "-parallel", true, handle_serial },
    { "-debugcon", true, handle_serial },
    { "-chardev", true, handle_chardev },
    { "-display", true, only_record },
    { "-vnc", true, only_record },
    { "-monitor", true, only_record },
    { "-qmp", true, only_record },
    { "-pidfile", true, only_record },
    { "-nographic", false, handle_nographic },
    { "-usb", false, handle_usb },
    { "-virtfs", true, handle_sharing },
    { "-fsdev", true, handle_sharing },
    { "-S", false, handle_start },
    { "-loadvm", true, handle_start },
    { "-incoming", true, handle_start },
    { "-s", false, handle_debugger },
    { "-gdb", true, handle_debugger },
    { "-daemonize", false, handle_log },
    { "-no-shutdown", false, handle_log },
};

bool machine_option_has_value(const char *given)
{
    const char *name = g_str_has_prefix(given, "--") ? given + 1 : given;

    for (unsigned i = 0; i < G_N_ELEMENTS(options); i++) {
        if (!strcmp(name, options[i].name)) {
            return options[i].value;
        }
    }
    return false;
}

static bool handle(struct builder *b, char *const **at, GError **error)
{
    const char *given = *(*at)++;
    /* QEMU takes "--name", too. */
    const char *name = g_str_has_prefix(given, "--") ? given + 1 : given;

    for (unsigned i = 0; i < G_N_ELEMENTS(options); i++) {
        if (strcmp(name, options[i].name)) {
            continue;
        }
        if (!options[i].value) {
            return options[i].handle(b, name, NULL, error);
        }
        if (!**at) {
            return refuse(error, "%s: its value is missing", given);
        }
        return options[i].handle(b, name, *(*at)++, error);
    }
    if (*given != '-') {
        /* A disk, as with -hda */
        return handle_disk(b, "-hda", given, error);
    }
    return refuse(error, "%s: it is not known whether a guest with this option "
                  "can be replayed; leave it out", given);
}

/* What QEMU would add by itself, and what makes a replay exact */
static void add_machine(struct builder *b)
{
    g_autoptr(GPtrArray) list = option_list_parse(
        b->machine ? b->machine : "pc", "type");
    g_autofree char *text = NULL, *ram = NULL;

    text = option_list_format(list, "type");
    put(b->m->record, "-machine", text);
    if (!b->own_ram) {
        /*
         * Names are found in RAM that QEMU shares.  In a base, it has the name
         * that it has without a backend.
         */
        ram = g_strdup_printf("memory-backend-memfd,id=pc.ram,size=%s,"
                              "share=on", b->ram ? b->ram : "134217728");
        put(b->m->replay, "-object", ram);
        option_list_set(list, "memory-backend", "pc.ram");
        g_free(text);
        text = option_list_format(list, "type");
    }
    put(b->m->replay, "-machine", text);
    put_both(b, "-accel", "tcg");
    put_both(b, "-no-user-config", NULL);
    put_both(b, "-L", "recording/" MACHINE_FIRMWARE);
}

static bool is_q35(const struct builder *b)
{
    g_autoptr(GPtrArray) list = option_list_parse(
        b->machine ? b->machine : "", "type");
    const char *type = option_list_get(list, "type");

    return type && (!strcmp(type, "q35") || g_str_has_prefix(type, "pc-q35-"));
}

/*
 * SeaBIOS waits for an empty CD drive on an AHCI controller as for one that is
 * about to answer.
 */
static void leave_out_drive(struct builder *b)
{
    put_both(b, "-nodefaults", NULL);
    if (!b->vga) {
        put_both(b, "-vga", "std");
    }
    b->m->note = "it has no CD drive, as q35 has by default: the firmware "
                 "waits for that";
}

static bool add_defaults(struct builder *b, GError **error)
{
    if (b->defaults) {
        if (is_q35(b)) {
            leave_out_drive(b);
        }
        if (!b->serial &&
            !handle_serial(b, "-serial", b->graphic ? "null" : "stdio",
                           error)) {
            return false;
        }
        if (!b->parallel) {
            put_both(b, "-parallel", "null");
        }
        if (!b->network && !handle_nic(b, "-nic", "user", error)) {
            return false;
        }
    }
    if (!b->clock) {
        put_both(b, "-rtc", "base=utc");
    }
    if (!b->monitor) {
        put(b->m->record, "-monitor", "none");
    }
    put(b->m->replay, "-monitor", "none");
    if (!b->graphic) {
        put(b->m->record, "-display", "none");
    }
    put(b->m->replay, "-display", "none");
    add_machine(b);
    return true;
}

struct machine *machine_new(char *const *arguments, GError **error)
{
    struct machine *m = g_new0(struct machine, 1);
    struct builder b = { .m = m, .defaults = true, .graphic = true };
    bool ok = true;

    m->record = g_ptr_array_new_with_free_func(g_free);
    m->replay = g_ptr_array_new_with_free_func(g_free);
    m->firmware = g_ptr_array_new_with_free_func(g_free);
    m->files = g_ptr_array_new_with_free_func(free_file);
    while (ok && *arguments) {
        ok = handle(&b, &arguments, error);
    }
    ok = ok && add_defaults(&b, error);
    g_free(b.machine);
    g_free(b.ram);
    if (!ok) {
        machine_free(m);
        return NULL;
    }
    return m;
}

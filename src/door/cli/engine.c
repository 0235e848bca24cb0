/* Opens the native engine as the options say; shared by the verbs that use it in-process. */
#include "base/home.h"
#include "door/cli/verb.h"

int cli_open_engine(const struct options *o, struct engine **ret, struct err *e)
{
	_cleanup_free_ char *guest = NULL;
	struct engine_env env = { .cgroup_parent = o->cgroup_parent,
		.ids_base = (uint32_t)o->ids_base,
		.ids_count = (uint32_t)o->ids_count,
		.layers = o->native_layers,
		.layer_store = o->native_layer_store };

	if (libexec_path("bailey-guest", &guest, e) < 0 || home_hash(env.home_hash, e) < 0)
		return -1;
	env.guest = guest;
	return engine_native.open(ret, &env, e);
}
